"""The command ``classify``: the probability of label 1 for events."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.data import NEW_EVENT_OPTIONS, Json, reads_events
from contig.cli.folders import Device, Folder, open_run
from contig.cli.repeated import Repeated, parse_known_policy
from contig.data.read_options import ReadOptions
from contig.errors import ConfigError
from contig.wording import counted

if TYPE_CHECKING:
    from contig.runs.answers import Classification
    from contig.tasks.calibration import LabelQuality

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig classify runs/shop", "test events of the run"),
        ("contig classify runs/shop --out all.csv", "all trained on"),
        ("contig classify runs/shop --data new.csv --out p.csv", "new events"),
        ("contig classify runs/shop --label-delay 604800", "labels a week late"),
    ),
)
@partial(reads_events, names=NEW_EVENT_OPTIONS)
def classify(
    run: Folder,
    file: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="FILE",
            show_default="the events of the run",
            help="New events, in order after those that the run knows; labels are optional.",
        ),
    ] = None,
    repeated: Repeated = "reject",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A .csv, .parquet or .arrow file to write."),
    ] = None,
    label_delay: Annotated[
        float | None,
        typer.Option(
            "--label-delay",
            metavar="TIME",
            show_default="0, or that of the saved classifier",
            help="How long after its event a label becomes known, in the unit of the times.",
        ),
    ] = None,
    refit: Annotated[bool, typer.Option("--refit", help="Fit the classifier again.")] = False,
    *,
    reading: ReadOptions,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Predict the labels of events: the probability of label 1 for each, and how good they are.

    The first call fits a classifier on the training events and saves it with the run: boosted trees or a
    network, whichever is better on the validation events. Every decision uses only what is known before its
    event. Boosted trees on simple columns, without the graph, are shown for comparison.
    """
    outputs.check_file("--out", out, *outputs.TABLES, inputs=[file])
    if file is None and (given := reading.as_dict()):
        raise ConfigError(f"{next(iter(given))} is an option for reading a file; name the file with --data.")
    policy, opened = parse_known_policy(repeated), open_run(run, device, "it can classify events")
    found = opened.classify(file, reading, repeated=policy, label_delay=label_delay, refit=refit)
    if json:
        console.print_json({"run": str(run), **_summary(found)})
    else:
        _print(found)
    if file is None and (later := len(opened.stream) - len(opened.trained_stream)):
        console.notice(
            f"{counted(later, 'event')} observed after the training are not among these: classify new events "
            "with --data before contig update, or train on them, too (contig refit)"
        )
    if out is not None:
        with outputs.writing(out, counted(len(found), "event")):
            outputs.write_table(out, outputs.with_times_of(opened, found.table(), out))


def _summary(found: Classification) -> dict[str, Any]:
    def quality(of: LabelQuality | None) -> dict[str, Any] | None:
        return None if of is None else of.as_dict()

    return {
        "events": len(found),
        "decoder": found.decoder,
        "label_delay": found.label_delay,
        "validation_auc": found.validation_aucs,
        "labels": found.fitted_on.as_dict(),
        "quality": quality(found.quality),
        "baseline": quality(found.baseline_quality),
        "warnings": list(found.warnings),
    }


def _print(found: Classification) -> None:
    if found.quality is not None and found.baseline_quality is not None:
        _print_quality(found, found.quality, found.baseline_quality)
    elif len(found) and not found.test_events:  # else a warning says that no test event has a label
        why = "no test events are left" if found.part is not None else "the events have no labels"
        console.notice(f"the quality of these probabilities was not measured: {why}")
    for warning in found.warnings:
        console.notice(warning)


def _print_quality(found: Classification, chosen: LabelQuality, baseline: LabelQuality) -> None:
    from contig.tasks.label_classifier import BASELINE

    measured = "Test events, %" if found.part is not None else "New events, %"
    table = console.new_table(measured, "AUC", "AP", "ECE", "Brier", "label 1", "events")
    for name, quality in (("classifier", chosen), ("baseline", baseline)):
        figures = (quality.auc, quality.ap, quality.calibration_error, quality.brier)
        counts = (f"{quality.positives:,}", f"{quality.events:,}")
        table.add_row(name, *(_percent(value) for value in figures), *counts)
    console.out().print(table)
    choices = ", ".join(f"{name} {_percent(auc)}" for name, auc in found.validation_aucs.items())
    validation = found.fitted_on.validation
    share = f"{validation.positives:,} of {validation.events:,} have label 1"
    baseline_name = f"boosted {BASELINE}, without the graph"
    notes = [
        f"classifier: the baseline itself, {baseline_name}: it was best on the validation events"
        if found.decoder == BASELINE
        else f"classifier: {found.decoder}; baseline: {baseline_name}",
        f"AUC of the validation events ({share}), which chose it: {choices}",
        "that AUC is optimistic, as it chose the classifier; fitting did not use the events of the table",
        "ECE: expected calibration error; lower is better, as for the Brier score",
    ]
    if chosen.positives in (0, chosen.events):
        label = int(chosen.positives > 0)
        notes.append(f"AUC and AP need events of both labels; the label of all of these is {label}")
    for note in notes:
        console.out().print(f"  {note}", soft_wrap=True, markup=False)


def _percent(value: float) -> str:
    return "-" if value != value else f"{100 * value:.2f}"
