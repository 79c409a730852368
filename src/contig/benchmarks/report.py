"""The report of a benchmark: as JSON, as Markdown, and its figures as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from contig.benchmarks.bench import Bench
from contig.benchmarks.environment import load, processor, versions
from contig.benchmarks.measurement import Measurement, Range, Unit
from contig.errors import DataError
from contig.files import write_text
from contig.kernels.devices import hardware
from contig.options import as_dict

HEADINGS = ("measurement", "what", "ours", "theirs", "compared with", "ratio", "range", "note")


@dataclass(frozen=True)
class Report:
    """Measurements, and what they were taken on and with."""

    command: str
    data: str
    events: int
    nodes: int
    device: str  # cpu or cuda
    hardware: str
    cpu: str
    load: float
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    measurements: Sequence[Measurement]

    @classmethod
    def create(cls, bench: Bench, command: str, measurements: Sequence[Measurement]) -> Report:
        """Describe the benchmark, this machine and its packages."""
        return cls(
            command=command,
            data=str(bench.stream.origin),
            events=len(bench.stream),
            nodes=bench.stream.num_nodes,
            device=bench.device.type,
            hardware=hardware(bench.device),
            cpu=f"{processor()}, {torch.get_num_threads()} threads",
            load=load(),
            versions=versions(),
            settings=as_dict(bench.settings),
            measurements=list(measurements),
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Report:
        rows = [Measurement(**row) for row in saved["measurements"]]
        return cls(**{**saved, "measurements": rows})

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read a report that ``--out`` or ``--json`` has written."""
        try:
            return cls.from_dict(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"not a report of contig bench ({error}). Create one with contig bench --out"
            raise DataError(f"{path}: {reason}.") from None

    def to_markdown(self) -> str:
        """Return the command, the machine and a table of the measurements."""
        packages = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        settings = ", ".join(f"{name} {_text(value)}" for name, value in self.settings.items())
        lines = [
            *("```bash", self.command, "```", ""),
            f"{self.events:,} events, {self.nodes:,} nodes, without features. {self.hardware}; {self.cpu}; "
            f"load {self.load} at the end. {packages}.",
            *(f"Settings: {settings}.", ""),
            _markdown_row(HEADINGS),
            "|---" * len(HEADINGS) + "|",
            *(_markdown_row(_columns(row)) for row in self.measurements),
        ]
        return "\n".join(lines) + "\n"

    def write_markdown(self, path: Path) -> None:
        """Write the table to ``path``, between the markers for this kind of device if the file has them.

        The markers are ``<!-- bench cpu -->`` (or ``cuda``) and ``<!-- end -->``; a file without them is
        replaced.
        """
        content = self.to_markdown()
        text = path.read_text("utf-8") if path.is_file() else ""
        marker = re.escape(f"<!-- bench {self.device} -->\n")
        marked = re.compile(f"({marker}).*?(<!-- end -->)", re.DOTALL)
        if marked.search(text):
            content = marked.sub(lambda match: f"{match[1]}{content}{match[2]}", text)
        write_text(path, content)


def format_value(value: float | None, unit: Unit) -> str:
    """Format a figure with a readable unit: ``12.3 ms``, ``354 MB``."""
    if value is None:
        return ""
    if unit != "s":
        return f"{value / 1e6:,.0f} MB" if unit == "bytes" else f"{value:,.3g} {unit}"
    for scale, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:,.3g} {name}" if value / scale < 1000 else f"{value / scale:,.0f} {name}"
    return f"{value * 1e6:.2g} µs"


def format_ratio(ratio: float | None) -> str:
    """Format a ratio with three digits."""
    if ratio is None:
        return ""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def format_range(low_high: Range | None) -> str:
    return "" if low_high is None else " .. ".join(map(format_ratio, low_high))


def _columns(row: Measurement) -> tuple[str, ...]:
    """Format a measurement as the columns of ``HEADINGS``."""
    figures = format_value(row.ours, row.unit), format_value(row.peer, row.unit), row.peer_name
    ratios = format_ratio(row.ratio), format_range(row.ratio_range)
    return (f"`{row.name}`", row.what, *figures, *ratios, row.note)


def _markdown_row(columns: Sequence[str]) -> str:
    return "| " + " | ".join(columns) + " |"


def _text(value: Any) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
