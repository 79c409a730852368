"""A benchmark's result as JSON, as cells of a table, and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contig.benchmarks.timing import Measurement, Range
from contig.errors import DataError
from contig.files import replacing

HEADINGS = ("what", "ours", "peer", "peer's", "ratio", "range", "note")  # of the Markdown table


def as_report(about: Mapping[str, Any], command: str, rows: Sequence[Measurement]) -> dict[str, Any]:
    """Everything as plain values."""
    return {"command": command, **about, "measurements": [asdict(row) for row in rows]}


def read_report(path: Path) -> dict[str, Any]:
    """A report that ``--out`` or ``--json`` wrote."""
    try:
        found = json.loads(path.read_text("utf-8"))
        rows_of(found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a report of contig bench ({error}); write one with --out.") from None
    report: dict[str, Any] = found
    return report


def rows_of(report: Mapping[str, Any]) -> list[Measurement]:
    return [Measurement(**row) for row in report["measurements"]]


def amount(value: float | None, unit: str) -> str:
    """A figure as people read it."""
    if value is None:
        return ""
    if unit == "bytes":
        return f"{value / 1e6:,.0f} MB"
    for scale, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:,.3g} {name}" if value / scale < 1000 else f"{value / scale:,.0f} {name}"
    return f"{value * 1e6:.2g} µs"


def times(ratio: float) -> str:
    """A ratio to three digits."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def between(low_high: Range | None) -> str:
    return "" if low_high is None else " .. ".join(map(times, low_high))


def cells(row: Measurement) -> tuple[str, ...]:
    """What ``HEADINGS`` name, of one row."""
    return (
        row.what,
        amount(row.ours, row.unit),
        row.peer_name,
        amount(row.peer, row.unit),
        "" if row.ratio is None else times(row.ratio),
        between(row.ratio_range),
        row.note,
    )


def as_markdown(report: Mapping[str, Any]) -> str:
    """The command, the machine and the table."""
    where = f"{report['hardware']}; {report['cpu']}; load {report['load']} when it ended"
    told = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    settings = ", ".join(f"{name} {value}" for name, value in report["settings"].items())
    lines = [
        *("```bash", report["command"], "```", ""),
        f"{report['events']:,} events, {report['nodes']:,} nodes, without features. {where}. {told}.",
        *(f"Settings: {settings}.", ""),
        "| measurement | " + " | ".join(HEADINGS) + " |",
        "|---" * (1 + len(HEADINGS)) + "|",
        *(f"| `{row.name}` | " + " | ".join(cells(row)) + " |" for row in rows_of(report)),
    ]
    return "\n".join(lines) + "\n"


def write_markdown(report: Mapping[str, Any], path: Path) -> None:
    """Write the table to ``path``: between its marks for this kind of device where it has them.

    The marks are ``<!-- bench cpu -->`` (or ``cuda``) and ``<!-- end -->``; a file without them is replaced.
    """
    table = as_markdown(report)
    text = path.read_text("utf-8") if path.is_file() else ""
    mark = f"<!-- bench {report['device']} -->\n"
    marked = re.compile(f"({re.escape(mark)}).*?(<!-- end -->)", re.DOTALL)
    if marked.search(text):
        table = marked.sub(lambda found: f"{found[1]}{table}{found[2]}", text)
    with replacing(path) as part:
        part.write_text(table, "utf-8")
