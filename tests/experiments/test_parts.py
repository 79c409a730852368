"""Parts of a sweep: every run is in exactly one of them, and no part runs twice at the same time."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.finished import finish

from contig.errors import ConfigError, RunError
from contig.experiments import parts as module
from contig.experiments.jobs import as_chains, plan
from contig.experiments.parts import CLAIMS, Part, claimed
from contig.experiments.recipes import Recipe

RECIPES = [Recipe("mooc", "tgn"), Recipe("mooc", "jodie", {"dim": 8}), Recipe("enron", "edgebank")]


def test_a_part_is_a_number_and_a_total() -> None:
    assert Part.parse("2/3") == Part(2, 3)
    assert str(Part.parse(" 10/10 ")) == "10/10"
    assert Part() == Part.parse("1/1")
    assert [part.whole for part in (Part(), Part(1, 2))] == [True, False]


@pytest.mark.parametrize(
    "text", ["4/3", "0/2", "0/0", "-1/3", "x", "", "2", "/8", "1/", "1/2/3", "1.0/2", "²/3"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--part .*: expected K/N with K from 1 to N"):
        Part.parse(text)


@pytest.mark.parametrize("total", [1, 2, 3, 7, 20])
def test_every_run_is_in_one_part_and_parts_are_even(total: int, tmp_path: Path) -> None:
    chains = as_chains(plan(RECIPES, 5, tmp_path))  # 11 runs: a heuristic has one seed
    found = [Part(number, total).of(chains) for number in range(1, total + 1)]
    assert sorted(chain[0].name for part in found for chain in part) == sorted(c[0].name for c in chains)
    assert {len(part) for part in found} <= {11 // total, -(-11 // total)}


def test_the_division_depends_on_neither_order_nor_what_is_done(tmp_path: Path) -> None:
    jobs = plan(RECIPES, 4, tmp_path)
    before = [job for [job] in Part(2, 3).of(as_chains(jobs))]
    assert before == [job for job in jobs if job in before]  # in the order that was planned
    finish(jobs[0])
    finish(before[0])
    shuffled = random.Random(3).sample(jobs, len(jobs))
    again = [job for [job] in Part(2, 3).of(as_chains(shuffled))]
    assert {job.folder for job in again} == {job.folder for job in before}


@pytest.mark.parametrize("seeds", [1, 2])
def test_parts_share_models_and_heuristics(seeds: int, tmp_path: Path) -> None:
    """Not one part with the slow model of every dataset, nor one with all the heuristics."""
    models = ("contig", "tgn", "edgebank", "recency")
    recipes = [Recipe(data, model) for data in ("enron", "mooc") for model in models]
    for number in (1, 2):
        own = [job.recipe.model for [job] in Part(number, 2).of(as_chains(plan(recipes, seeds, tmp_path)))]
        assert (own.count("contig"), own.count("tgn")) == (seeds, seeds)
        assert own.count("edgebank") + own.count("recency") == 2


# --- claims ------------------------------------------------------------------------------------------------


def test_different_parts_run_at_the_same_time(tmp_path: Path) -> None:
    with claimed(tmp_path, Part(1, 3)):
        with claimed(tmp_path, Part(3, 3)), claimed(tmp_path, Part(2, 3)):
            pass
        with claimed(tmp_path, Part(2, 3)):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("other", "name"), [(Part(2, 3), "Part 2/3"), (Part(1, 4), "Part 1/4"), (Part(), "The command")]
)
def test_overlapping_parts_are_refused(other: Part, name: str, tmp_path: Path) -> None:
    running = rf"{name} cannot start in .*2-of-3 is in use by process {os.getpid()} since"
    with claimed(tmp_path, Part(2, 3)):
        with pytest.raises(RunError, match=running), claimed(tmp_path, other):
            pass
        with claimed(tmp_path, Part(1, 3)):  # the refusal has changed nothing
            pass
    with claimed(tmp_path, other):
        pass
    assert list(tmp_path.iterdir()) == []


def test_no_part_starts_while_the_whole_sweep_runs(tmp_path: Path) -> None:
    refused = pytest.raises(RunError, match="1-of-1 is in use by")
    with claimed(tmp_path, Part()), refused, claimed(tmp_path, Part(1, 2)):
        pass


def test_what_a_killed_part_left_does_not_matter(tmp_path: Path) -> None:
    for name in ("1-of-2", "2-of-3"):
        (tmp_path / CLAIMS / name).mkdir(parents=True)
        (tmp_path / CLAIMS / name / ".lock").write_text('{"pid": 1, "started": "long ago"}')
    with claimed(tmp_path, Part(2, 3)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_waiting_starts_when_the_other_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running, pauses = ExitStack(), []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            running.close()

    monkeypatch.setattr(module.time, "sleep", pause)
    running.enter_context(claimed(tmp_path, Part(1, 2)))
    with claimed(tmp_path, Part(1, 2), wait=True):
        assert len(pauses) == 2
    assert list(tmp_path.iterdir()) == []
