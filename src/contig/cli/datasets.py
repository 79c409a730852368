"""The command ``datasets``: what can be used by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.data import DataDir, Json
from contig.errors import ConfigError
from contig.wording import counted

if TYPE_CHECKING:
    from rich.text import Text

    from contig.data.catalog import Dataset

app = typer.Typer()


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig datasets", "which are on this machine"),
        ("contig datasets --data-dir streams", "look in this folder"),
        ("contig inspect synthetic:5000", "a name instead of a file"),
        ("contig datasets shop:200000 --out shop.csv", "write to a file"),
    ),
)
def datasets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", show_default=False, help="A dataset to write to a file, with --out."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="A .csv, .parquet or .arrow file for the dataset NAME."),
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """List the datasets that can be used by name, and where they are; or write one to a file."""
    if name is not None or out is not None:
        _write(name, out, data_dir)
        return
    entries = list(_entries(data_dir))
    if json:
        console.print_json([entry.as_dict() for entry in entries])
    else:
        console.out().print(_listing(entries), soft_wrap=True)


def _write(name: str | None, out: Path | None, data_dir: Path | None) -> None:
    if name is None or out is None:
        raise ConfigError(
            "To write a dataset, give both its name and a file: contig datasets NAME --out FILE."
        )
    from contig.data.datasets import dataset_table, find_dataset

    outputs.check_file("--out", out, *outputs.TABLES, inputs=[find_dataset(name, data_dir)])

    with console.status(f"loading {name}"):
        table = dataset_table(name, data_dir=data_dir, wide=out.suffix == ".csv")
    with outputs.writing(out, counted(table.num_rows, "event")):
        outputs.write_table(out, table)


class _Entry(NamedTuple):
    """A dataset, its file on this machine if there is one, and where that is."""

    dataset: Dataset
    path: Path | None
    place: Literal["generated", "missing", "cache", "folder"]

    def as_dict(self) -> dict[str, Any]:
        names = ("name", "description", "events", "nodes", "bipartite", "edge_width", "labels")
        facts = {name: getattr(self.dataset, name) for name in names}
        place = {"place": self.place, "path": None if self.path is None else str(self.path)}
        return {
            **facts,
            **place,
            "verified": not self.doubt,
            "url": self.dataset.url,
            "source": self.dataset.source,
        }

    def status(self) -> tuple[str, str]:
        """Return where the dataset is, and the style to print it in."""
        if self.place == "missing":
            how = "downloaded when used" if self.dataset.url else "must be obtained manually"
            return f"not on this machine; {how}{self.doubt}", "yellow"
        if self.place == "generated":
            return "generated when used", "green"
        return f"{'cached' if self.place == 'cache' else 'found'}: {self.path}{self.doubt}", "green"

    @property
    def doubt(self) -> str:
        """A remark on a dataset whose events cannot be compared with the published ones."""
        return " (unverified)" if self.dataset.published and self.dataset.fingerprint is None else ""


def _entries(data_dir: Path | None) -> Iterator[_Entry]:
    """Describe every dataset; one that an installed package fails to provide is reported and skipped."""
    from contig.caches import cache_folder
    from contig.data.catalog import DATASETS
    from contig.data.datasets import find_dataset

    for name in DATASETS:
        try:
            dataset = DATASETS[name]
        except ConfigError as error:
            console.notice(str(error))
            continue
        path = find_dataset(name, data_dir)
        if dataset.filename is None:
            yield _Entry(dataset, None, "generated")
        elif path is None:
            yield _Entry(dataset, None, "missing")
        else:
            yield _Entry(dataset, path, "cache" if path.parent == cache_folder() else "folder")


def _listing(entries: Sequence[_Entry]) -> Text:
    """List the numbers of each dataset, what it is and where; paths are not wrapped, to be copied."""
    from rich.text import Text

    width = max(12, *(len(entry.dataset.name) + 2 for entry in entries))
    lines = [Text(f"{'name':<{width}}{'events':>11}{'nodes':>9}{'features':>10}  labels", style="cyan")]
    for entry in entries:
        dataset = entry.dataset
        counts = f"{_count(dataset.events):>11}{_count(dataset.nodes):>9}{dataset.edge_width or '-':>10}"
        labels = "  yes" if dataset.labels else "  no"
        lines += [
            Text(),
            Text.assemble((f"{dataset.name:<{width}}", "bold"), counts, labels),
            *([Text(f"  {dataset.description}")] if dataset.description else []),
            Text.assemble("  ", entry.status()),
            *([Text(f"  {origin}", style="dim")] if (origin := dataset.url or dataset.source) else []),
        ]
    return Text("\n").join(lines)


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
