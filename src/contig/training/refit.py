"""Training a run once more: on everything it knows, or with new events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

from contig.data.cuts import DEFAULT_SPLIT
from contig.data.read_options import ReadKeywords, ReadOptions, reading_options
from contig.errors import ConfigError
from contig.kernels.devices import pick_device
from contig.options import check_flag
from contig.runs.config import RunConfig
from contig.runs.folder import RunFolder
from contig.runs.new_events import check_label_values, read_new_events
from contig.runs.repeated_events import KnownPolicy, all_known, check_known_policy, known_policy
from contig.runs.replacement import replaced
from contig.runs.run import Run
from contig.training.fit import start

EVERYTHING: Literal["everything"] = "everything"
RENEWED_EPOCHS = 1  # over old and new events, where training continues from weights that know the old ones
CHOOSE = "Choose another folder, or replace the run with overwrite=True (--overwrite)."


def refit(
    run: str | Path | Run,
    on: Any = EVERYTHING,
    *,
    out: str | Path | None = None,
    in_place: bool = False,
    overwrite: bool = False,
    epochs: int | None = None,
    lr: float | None = None,
    device: str = "auto",
    show: bool | None = None,
    reading: ReadOptions | None = None,
    repeated: KnownPolicy = "reject",
    **options: Unpack[ReadKeywords],
) -> Run:
    """Train a finished run once more for production, and return the new run.

    - ``on="everything"`` starts from random weights and learns from every event that the run knows, those of
      its validation and test and those it observed later included, for as many epochs as the run's best one.
    - ``on`` new events (anything that ``read_events`` takes, an ``EventStream``; ``options`` say how to read
      them) continues from the run's weights: one epoch over the run's events and the new ones, which come
      after them. New nodes are allowed. ``repeated="skip"`` leaves out events that the run already knows.

    No event is left to test on. The new run is saved in ``out``, by default next to the run as RUN-refit, and
    the old one does not change; ``overwrite`` replaces another run in ``out``. ``in_place`` replaces the old
    one when the training has ended: the folder always holds either the old run or the new one, also if the
    process is killed. A ``Run`` that is already open keeps answering from the old one but can no longer
    observe events.
    """
    if in_place and out is not None:
        raise ConfigError("refit: specify out (--out) or in_place (--in-place), not both.")
    check_flag("in_place", in_place)
    check_flag("overwrite", overwrite)
    opened = run if isinstance(run, Run) else Run.open(run, device)
    opened.require_finished("refit it")
    folder = None if in_place else _target(opened, out, overwrite)
    weights, passes = None, opened.metrics.best_epoch
    if not (isinstance(on, str) and on == EVERYTHING):
        given = reading_options(reading).updated(**options)
        _observe(opened := Run.open(opened.path, device), on, given, repeated)
        weights, passes = opened.model.state_dict(), RENEWED_EPOCHS
    config = _final(opened.config, max(1, passes) if epochs is None else epochs, lr)
    on_device = pick_device(device)

    def train(target: RunFolder) -> Run:
        stream = replace(opened.labeled_stream, read_as=opened.read_as, dates=opened.dates)
        features = opened.features
        return start(target, stream, config, on_device, show=show, features=features, weights=weights)

    if folder is None:
        with replaced(opened.folder) as draft:
            opened.check_version()
            notices = train(draft).notices
        new = Run.open(opened.path, on_device)
        new.notices = notices
        return new
    with folder.locked():
        if not overwrite:
            folder.must_be_free(cure=CHOOSE)
        return train(folder)


def _target(run: Run, out: str | Path | None, overwrite: bool) -> RunFolder:
    """Return the folder of the new run, which must be free unless it is overwritten."""
    folder = RunFolder(out if out is not None else _free_folder(run.path))
    if folder.path.resolve() == run.path.resolve():
        raise ConfigError(f"{folder.path} is the run itself; to replace it, use in_place (--in-place).")
    if not overwrite:
        folder.must_be_free(cure=CHOOSE)
    return folder


def _observe(run: Run, events: Any, reading: ReadOptions, repeated: KnownPolicy) -> None:
    """Add events to an opened run without saving them."""
    labeled = run.trained_stream.label is not None
    columns, place = read_new_events(events, reading, run.features, usual=run.read_as, with_labels=labeled)
    check_label_values(columns, run.trained_stream.label, place)
    check_known_policy(repeated)
    if repeated == "skip":
        first = place(0)
        columns, place, _ = run.skip_known(columns, place)
        if not len(columns.t):
            raise all_known(first)
    run.observe_columns(columns, place, repeated=known_policy(repeated))


def _final(config: RunConfig, epochs: int, lr: float | None) -> RunConfig:
    """Return a config that learns from every event."""
    changes: dict[str, Any] = {"final": True, "epochs": epochs, "split": DEFAULT_SPLIT, "holdout": "none"}
    return config.with_train(**changes, **({} if lr is None else {"lr": lr}))


def _free_folder(path: Path) -> Path:
    """Return a folder next to a run that does not exist yet."""
    number = 1
    while (folder := path.with_name(f"{path.name}-refit{'' if number == 1 else f'-{number}'}")).exists():
        number += 1
    return folder
