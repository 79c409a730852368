"""Reports as JSON and as Markdown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contig.benchmarks.measurement import Measurement, Unit
from contig.benchmarks.report import Report, format_value
from contig.errors import DataError
from contig.files import write_json

REPORT = Report(
    command="contig bench d",
    data="d",
    events=1234,
    nodes=5,
    device="cpu",
    hardware="an abacus",
    cpu="beads",
    load=0.5,
    versions={"torch": "9"},
    settings={"dim": 3, "runs": ()},
    measurements=[
        Measurement.compare("a-step", "a step", [0.0021, 0.0019], "peer", [0.4, 0.2]),
        Measurement.compare("memory", "peak", [3e6], "peer", [6e6], unit="bytes", note="of all"),
        Measurement.without_peer("append", "grow", [0.5, 0.7]),
        Measurement.missing("ode", "needs it"),
    ],
)


def test_a_report_is_read_from_its_file(tmp_path: Path) -> None:
    write_json(tmp_path / "r.json", REPORT.to_dict())
    report = Report.read(tmp_path / "r.json")
    assert report.measurements[2].ours == REPORT.measurements[2].ours
    assert report.to_markdown() == REPORT.to_markdown()
    (tmp_path / "no.json").write_text('{"measurements": [{"speed": 1}]}')
    for name in ("no.json", "absent.json"):
        with pytest.raises(DataError, match=rf"{name}: not a report of contig bench"):
            Report.read(tmp_path / name)


def test_the_markdown_has_the_figures() -> None:
    lines = REPORT.to_markdown().splitlines()
    assert "| `a-step` | a step | 2 ms | 300 ms | peer | 148 | 105 .. 190 |  |" in lines
    assert "| `memory` | peak | 3 MB | 6 MB | peer | 2 | 2 .. 2 | of all |" in lines
    assert "| `append` | grow | 600 ms |  |  |  |  |  |" in lines
    assert "| `ode` | not measured |  |  |  |  |  | needs it |" in lines
    assert "Settings: dim 3, runs none." in lines
    assert any("an abacus" in line and "torch 9" in line for line in lines)


def test_the_markdown_goes_between_its_markers(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("top\n<!-- bench cpu -->\nold\n<!-- end -->\n<!-- bench cuda -->\nkept\n<!-- end -->\n")
    for _ in range(2):
        REPORT.write_markdown(path)
    table = REPORT.to_markdown()
    assert path.read_text() == (
        f"top\n<!-- bench cpu -->\n{table}<!-- end -->\n<!-- bench cuda -->\nkept\n<!-- end -->\n"
    )
    replace(REPORT, device="cuda").write_markdown(path)
    assert "kept" not in path.read_text()
    REPORT.write_markdown(tmp_path / "new.md")
    assert (tmp_path / "new.md").read_text() == table


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        *[(2.5, "s", "2.5 s"), (0.01234, "s", "12.3 ms"), (4.56e-5, "s", "45.6 µs"), (4e-7, "s", "0.4 µs")],
        *[(2345.6, "s", "2,346 s"), (1.5e9, "bytes", "1,500 MB"), (None, "s", "")],
        (33.04, "bytes/event", "33 bytes/event"),
    ],
)
def test_values_have_readable_units(value: float | None, unit: Unit, text: str) -> None:
    assert format_value(value, unit) == text
