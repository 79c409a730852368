"""An engine answers as offline evaluation of the same events does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support.live import HEAD, Offline, open_engine, rows, train_for_serving

from contig.data.events import EventStream
from contig.errors import UnknownNodeError
from contig.live.queries import _spaced

CLOSE = {"rtol": 0, "atol": 1e-6}


@pytest.mark.parametrize("as_of", ["event", "batch"])
@pytest.mark.parametrize("model", ["contig", "contig-pair"])
def test_scores_of_single_events_are_those_of_offline_evaluation(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path, model: str, as_of: str
) -> None:
    offline = Offline(live_run(model), tiny)
    compared = 0
    with open_engine(tmp_path, live_run(model), as_of=as_of) as engine:
        for event in range(HEAD, HEAD + 65):  # crosses batches of 30, with ties at their ends
            sent = rows(tiny, [event])
            try:
                found = engine.score(sent.src, sent.dst, tiny.t[event].item())
            except UnknownNodeError:
                pass  # a node that no event has named yet
            else:
                np.testing.assert_allclose(found.score[0], offline.score(event, as_of), **CLOSE)
                compared += 1
            engine.observe(sent)
    assert compared > 50


def test_in_double_precision_scores_agree_to_its_last_digits(tiny: EventStream, tmp_path: Path) -> None:
    """What single precision leaves is rounding: an engine computes other rows together."""
    torch.set_default_dtype(torch.float64)
    try:
        run = train_for_serving(tmp_path / "run", "contig")
        offline = Offline(run, tiny)
        with open_engine(tmp_path / "live", run) as engine:
            for event in range(HEAD, HEAD + 65, 4):
                sent = rows(tiny, [event])
                found = engine.score(sent.src, sent.dst, tiny.t[event].item())
                np.testing.assert_allclose(found.score[0], offline.score(event, "event"), rtol=0, atol=1e-14)
                engine.observe(rows(tiny, slice(event, event + 4)))
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("as_of", ["event", "batch"])
def test_batches_of_any_size_lead_to_the_same_embeddings(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path, as_of: str
) -> None:
    offline = Offline(live_run("contig"), tiny)
    names, sides = offline.stream.ids.labels, offline.stream.ids.is_dst
    sizes = np.random.default_rng(5).choice([1, 2, 7, 40], 40)
    with open_engine(tmp_path, live_run("contig"), as_of=as_of) as engine:
        at = HEAD
        for size in sizes:
            engine.observe(rows(tiny, slice(at, at + size)))
            at += int(size)
            if at >= len(tiny):
                break
        assert engine.status().live_events == len(tiny) - HEAD
        later = tiny.t[-1].item() + 2.5
        for node in (0, 11, offline.stream.num_nodes - 1):
            side = "dst" if sides is not None and sides[node] else "src"
            found = engine.embed([names[node].item()], later if as_of == "event" else None, side=side)
            if as_of == "event":
                np.testing.assert_allclose(found[0], offline.embed(node, later), **CLOSE)
                assert (found.at, found.last_event) == (later, tiny.t[-1])


def test_the_past_is_as_it_was(live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path) -> None:
    offline = Offline(live_run("contig"), tiny)
    with open_engine(tmp_path, live_run("contig")) as engine:
        engine.observe(rows(tiny, slice(HEAD, len(tiny))))
        path = engine.trajectory(
            offline.stream.ids.labels[3].item(), 7, tiny.t[-1].item() + 9, 12, side="src"
        )
    for time, vector in zip(path.times.tolist(), path.embeddings, strict=True):
        np.testing.assert_allclose(vector, offline.embed(3, time), **CLOSE)


@pytest.mark.parametrize(
    ("first", "last", "steps", "expected"),
    [
        (0, 10, 5, [0.0, 2.5, 5.0, 7.5, 10.0]),
        (2**62 - 9, 2**62 - 2, 4, [2**62 - 9, 2**62 - 7, 2**62 - 5, 2**62 - 2]),
        (2**60 + 1, 2**60 + 1, 1, [2**60 + 1]),
        (0.5, 1.5, 3, [0.5, 1.0, 1.5]),
    ],
)
def test_times_of_a_path_are_exact(first: float, last: float, steps: int, expected: list[float]) -> None:
    assert _spaced(first, last, steps).tolist() == expected


@pytest.mark.parametrize("model", ["tgn", "jodie", "dyrep", "recency"])
def test_every_kind_of_model_is_served(
    live_run: Callable[[str], Path], tiny: EventStream, tmp_path: Path, model: str
) -> None:
    offline = Offline(live_run(model), tiny)
    with open_engine(tmp_path, live_run(model)) as engine:
        engine.observe(rows(tiny, slice(HEAD, 337)))
        for event in (337, 338):
            sent = rows(tiny, [event])
            found = engine.score(sent.src, sent.dst, tiny.t[event].item())
            np.testing.assert_allclose(found.score[0], offline.score(event, "event"), **CLOSE)
