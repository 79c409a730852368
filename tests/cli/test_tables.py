"""Tables of many runs: bold and missing numbers, failures, narrow terminals."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from support.finished import finish

from contig.cli import console, tables
from contig.experiments.jobs import Failure, plan
from contig.experiments.recipes import Recipe
from contig.experiments.rows import Row, collect


def speed(train: float, score: float, peak: int) -> dict[str, object]:
    return {
        "events_per_second": {"train": train, "score": score},
        "peak_memory": {"bytes": peak, "of": "the whole process"},
        "parameters": 12_345,
    }


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """A complete model, one with a failed seed, one that failed, and a heuristic."""
    models = ("contig", "tgn", "jodie", "recency")
    jobs = plan([Recipe("mooc", model) for model in models], 2, tmp_path)
    finish(jobs[0], 0.90, **speed(1000, 9000, 1_500_000_000))
    finish(jobs[1], 0.92, **speed(3000, 9000, 2_500_000_000))
    finish(jobs[2], 0.88, inductive=False, **speed(2500, 7000, 900_000_000))
    finish(jobs[6], 0.95, **speed(0, 99_000, 100_000_000))
    return collect(jobs, [Failure(job, "no luck") for job in jobs[3:6]])


def cells(table: object) -> list[list[str]]:
    """Return the cells of a table, which are separated by two spaces."""
    lines = [line.strip() for line in tables.as_text(table).splitlines()]  # type: ignore[arg-type]
    return [[word.strip() for word in line.split("  ") if word.strip()] for line in lines if line]


def test_the_cells_of_a_comparison(rows: list[Row]) -> None:
    heading, _, contig, tgn, jodie, section, recency = cells(tables.comparison_table(rows))
    quality = [f"{m} {s}" for m in ("AP", "AUC") for s in ("trans.", "ind. ours", "ind. dyglib")]
    assert heading == ["model", *quality, "parameters", "train ev/s", "score ev/s", "peak memory"]
    spread = [f"{mean}.00 ± 1.41" for mean in (91, 91, 86, 81, 81, 76)]
    assert contig == ["contig", *spread, "12,345", "2,000", "9,000", "2.50 GB"]
    assert tgn == ["tgn", "88.00", "-", "-", "78.00", "-", "-", "12,345", "2,500", "7,000", "900 MB"]
    assert jodie == ["jodie", "failed", *["-"] * 9]
    assert section == ["heuristics"]
    assert recency == [
        *("recency", "95.00", "95.00", "90.00", "85.00", "85.00", "80.00"),
        *("12,345", "-", "99,000", "100 MB"),
    ]


def bold(rows: list[Row]) -> dict[str, set[str]]:
    return {
        column.heading: {row.label for row in rows if row.seeds and "[bold]" in column.cell(row, rows)}
        for column in (*tables.METRICS, *tables.COST)
    }


def test_the_best_of_a_column_is_bold(rows: list[Row]) -> None:
    """Heuristics compete in the metrics, but not in the cost."""
    found = bold(rows)
    assert [found[column.heading] for column in tables.METRICS] == [{"recency"}] * 6
    costs = {"parameters": set(), "train ev/s": {"tgn"}, "score ev/s": {"contig"}, "peak memory": {"tgn"}}
    assert {name: found[name] for name in costs} == costs
    learned = bold(rows[:2])
    assert (learned["AP trans."], learned["AP ind. ours"]) == (
        {"contig"},
        set(),
    )  # a single number is not the best


def test_numbers_that_are_printed_alike_are_equally_good(tmp_path: Path) -> None:
    jobs = plan([Recipe("mooc", model) for model in ("contig", "tgn", "jodie")], 1, tmp_path)
    for job, ap in zip(jobs, (0.90001, 0.90002, 0.9002), strict=True):
        finish(job, ap)
    rows = collect(jobs)
    assert bold(rows)["AP trans."] == {"jodie"}
    assert bold(rows[:2])["AP trans."] == {"contig", "tgn"}


def test_the_cells_of_repeated_recipes(rows: list[Row]) -> None:
    lines = cells(tables.repeat_table(rows))
    assert lines[0][:4] == ["data", "model", "variant", "seeds"]
    assert lines[2][:5] == ["mooc", "contig", "as given", "2", "91.00 ± 1.41"]
    assert lines[2][-2:] == ["2", "4.00"]
    assert lines[4][:5] == ["mooc", "jodie", "as given", "0", "failed"]


def test_a_failure_names_its_log(rows: list[Row]) -> None:
    lines = tables.failures(rows)
    assert len(lines) == 3
    log = next(failure.job.log for row in rows for failure in row.failures if failure.job.seed == 1)
    assert lines[0] == f"tgn failed with seed 1: no luck (full log: {log})"
    assert log.name.startswith("mooc-tgn-1-")


@pytest.mark.parametrize(("width", "shown"), [(200, 1), (80, 3)])
def test_a_narrow_terminal_gets_three_tables(
    width: int, shown: int, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(file=StringIO(), width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(console, "out", lambda: terminal)
    parts = [tables.comparison_table(rows, some) for some in (tables.PRECISION, tables.AREA, tables.COST)]
    tables.show(tables.comparison_table(rows), parts)
    lines = terminal.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    assert sum(line.split()[:1] == ["recency"] for line in lines) == shown
    assert "…" not in "".join(lines)
