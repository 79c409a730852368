"""How well labels are predicted, next to boosted trees without the graph and to the paper.

    python -m contig.benchmarks.labels shop shop-ring wikipedia mooc --epochs 5 --seeds 3

Finished runs in ``--out`` are used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from contig.reproduction.paper import published
from contig.runs.answers import Classification
from contig.runs.folder import RunFolder
from contig.runs.run import Run
from contig.training.fit import fit

FIGURES = ("auc", "ap", "calibration_error", "brier")


class Row(NamedTuple):
    """The quality on one dataset, over seeds: of the classifier and of the baseline, ``[seeds, figures]``."""

    dataset: str
    classifier: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    baseline: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    decoders: tuple[str, ...]


def measure(dataset: str, seeds: int, folder: Path, model: str, device: str, **settings: Any) -> Row:
    """Train, or open finished runs, and classify their test events."""
    found = [_classified(dataset, seed, folder, model, device, **settings) for seed in range(seeds)]
    return Row(
        dataset,
        np.array([[getattr(one.quality, name) for name in FIGURES] for one in found]),
        np.array([[getattr(one.baseline_quality, name) for name in FIGURES] for one in found]),
        tuple(one.decoder for one in found),
    )


def _classified(
    dataset: str, seed: int, folder: Path, model: str, device: str, **settings: Any
) -> Classification:
    path = folder / f"{dataset.replace(':', '-')}-{model}-{seed}"
    if RunFolder(path).is_finished:
        return Run.open(path, device).classify()
    return fit(dataset, model, out=path, device=device, overwrite=True, seed=seed, **settings).classify()


def lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return the table: figures in %, as mean and deviation over seeds."""
    found = []
    for row in rows:
        gain = row.classifier[:, 0] - row.baseline[:, 0]
        name = row.dataset.partition(":")[0]
        paper = published("table3", "auc", "contig", name).mean
        found.append(
            (
                row.dataset,
                *(_spread(row.classifier[:, i]) for i in range(len(FIGURES))),
                *(_spread(row.baseline[:, i]) for i in range(2)),
                f"{100 * gain.mean():+.2f}",
                "-" if np.isnan(paper) else f"{paper:.2f}",
                ", ".join(dict.fromkeys(row.decoders)),
            )
        )
    return found


HEADINGS = ("dataset", "AUC", "AP", "ECE", "Brier", "baseline AUC", "AP", "gain", "paper AUC", "decoder")


def _spread(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    deviation = f" ± {100 * values.std(ddof=1):.2f}" if len(values) > 1 else ""
    return f"{100 * values.mean():.2f}{deviation}"


def main(
    datasets: Annotated[list[str], typer.Argument(help="Names of datasets with labels.")],
    epochs: Annotated[int, typer.Option(help="Maximum epochs of a training.")] = 5,
    seeds: Annotated[int, typer.Option(help="Trainings on each dataset.")] = 1,
    model: Annotated[str, typer.Option(help="The model.")] = "contig",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dim: Annotated[int | None, typer.Option(help="Width of embeddings.")] = None,
    out: Annotated[Path, typer.Option(help="The folder of the runs.")] = Path("runs/labels"),
) -> None:
    """Measure how well labels are predicted."""
    settings = {"epochs": epochs, **({} if dim is None else {"dim": dim, "time_dim": dim})}
    rows = [measure(name, seeds, out, model, device, **settings) for name in datasets]
    table = [HEADINGS, *lines(rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADINGS))]
    for line in table:
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    typer.run(main)
