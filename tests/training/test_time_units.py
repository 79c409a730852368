"""The unit and the origin of a stream's times do not matter, and paths between events are smooth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.trained import TINY, fast_training, tiny_stream, train_tiny, without_costs

from contig.data.events import EventStream
from contig.runs.run import Run
from contig.training.fit import fit

DAY = 86_400
TIMED: dict[str, tuple[str, dict[str, Any]]] = {
    "contig": ("contig", {}),
    "contig-linear": ("contig", {"time_encoding": "linear"}),
    "contig-absolute": ("contig", {"query_time": "absolute"}),
    "contig-pair": ("contig-pair", {"tokens": 5, "width": 7}),
    "dygformer": ("dygformer", {"sequence": 4, "channel_dim": 4}),
    "tpnet": ("tpnet", {"sketch_dim": 8, "hops": 2}),
    **{name: (name, {}) for name in ("tgn", "tgat", "graphmixer", "jodie", "dyrep")},
}
WITHOUT_NEIGHBORS = ("jodie", "dygformer")  # have no such option
Rescaling = Callable[[Any], Any]
EXACT: dict[str, Rescaling] = {
    "ns": lambda t: 1_000_000_000 * t,
    "float before 1970": lambda t: t / 4 - 500_000_000,
}
INEXACT: dict[str, Rescaling] = {"thirds": lambda t: t / 3 - 1e9}
MORE_EXACT: dict[str, Rescaling] = {  # of one model: all read times in the same way
    "ms": lambda t: 1000 * t,
    "dates": lambda t: t.astype("datetime64[s]"),
    "later": lambda t: t + 1_000_000_000,
    "before 1970": lambda t: t - 2_000_000_000,
    "float": lambda t: t / 4,
}
MORE_INEXACT: dict[str, Rescaling] = {"days": lambda t: t / DAY}


def train(t: Any, case: str, out: Path) -> Run:
    stream = tiny_stream(edge_features=2)
    model, settings = TIMED[case]
    known = {k: v for k, v in TINY.items() if k != "neighbors" or model not in WITHOUT_NEIGHBORS}
    data = EventStream.from_arrays(
        stream.src, stream.dst, t, edge_features=stream.edge_features, bipartite=True, origin="tiny"
    )
    with fast_training():
        return fit(data, model, out=out, show=False, device="cpu", epochs=1, **known, **settings)


def seconds() -> Any:
    """Whole seconds with ties; the differences between them are no powers of two."""
    return 1_100_000_000 + 61 * tiny_stream().t


UNITS = ("elapsed.", "sketches.elapsed.", "evidence._extra_state")


def learned(run: Run) -> dict[str, torch.Tensor]:
    """Return the weights that do not state the unit itself."""
    return {name: x for name, x in run.model.state_dict().items() if not name.startswith(UNITS)}


@pytest.mark.parametrize("case", TIMED)
def test_rescalings_are_bit_identical_or_differ_by_rounding(case: str, tmp_path: Path) -> None:
    expected = train(seconds(), case, tmp_path / "seconds")
    exact, inexact = EXACT, INEXACT
    if case == "contig":
        exact, inexact = EXACT | MORE_EXACT, INEXACT | MORE_INEXACT
    for name, rescaled in exact.items():
        found = train(rescaled(seconds()), case, tmp_path / name)
        assert without_costs(found.metrics.as_dict()) == without_costs(expected.metrics.as_dict()), name
        for weight, value in learned(expected).items():
            assert torch.equal(learned(found)[weight], value), (name, weight)
    for name, rescaled in inexact.items():
        found = train(rescaled(seconds()), case, tmp_path / name)
        assert found.metrics.epochs[-1].loss == pytest.approx(expected.metrics.epochs[-1].loss, rel=1e-4)
        assert found.metrics.transductive.ap == pytest.approx(expected.metrics.transductive.ap, abs=0.02)


def test_the_unit_comes_from_training_events_alone(stream: EventStream, tmp_path: Path) -> None:
    """Events after training may lie at any times; the model is that of the first epoch all the same."""
    run = train_tiny(stream, tmp_path / "run", holdout="paper")
    first = int(np.quantile(np.arange(len(stream)), 0.8))
    t = stream.t.copy()
    t[first:] += 1_000_000 * np.arange(len(t) - first)
    late = EventStream.from_arrays(
        stream.src, stream.dst, t, edge_features=stream.edge_features, bipartite=True
    )
    other = train_tiny(late, tmp_path / "late", holdout="paper")
    for name, value in run.model.state_dict().items():
        assert torch.equal(other.model.state_dict()[name], value), name


@pytest.mark.parametrize("model", ["edgebank", "popularity", "recency", "ctdne"])
def test_models_that_use_only_the_order_of_times(model: str, tmp_path: Path) -> None:
    """Ages far below 1, as in a stream in centuries, are distinguished as well as seconds."""
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 13, 500), 13 + rng.integers(0, 7, 500)
    t = 1_100_000_000 + np.cumsum(rng.integers(1, 90, 500))
    found = []
    for name, times in {"seconds": t, "ns": 1_000_000_000 * t, "centuries": t / 2**32}.items():
        data = EventStream.from_arrays(src, dst, times, origin="pairs")
        settings = {"holdout": "paper", "epochs": 1, "show": False, "device": "cpu"}
        with fast_training():
            found.append(fit(data, model, out=tmp_path / name, **settings).metrics.result)
    assert found[0] == found[1] == found[2]


# -- paths ------------------------------------------------------------------------------------------------


def silence_stream() -> tuple[EventStream, int]:
    """Return minutes of events between 20 nodes, then two silent weeks, then the same again.

    Also the time at which the silence begins.
    """
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 13, 600), 13 + rng.integers(0, 7, 600)
    t = 1_700_000_000 + np.cumsum(rng.integers(1, 90, 600))
    t[540:] += 14 * DAY
    return EventStream.from_arrays(src, dst, t, origin="silence"), int(t[539])


@pytest.mark.parametrize("model", ["contig", "tgn", "tgat", "jodie"])
def test_a_path_through_a_long_silence_is_smooth(model: str, tmp_path: Path) -> None:
    stream, begin = silence_stream()
    sizes = {"dim": 16, "lr": 0.01, "batch_size": 30} | ({} if model == "jodie" else {"time_dim": 16})
    with fast_training():
        run = fit(stream, model, out=tmp_path / "run", epochs=1, show=False, device="cpu", **sizes)
    drawn = np.linspace(begin + DAY, begin + 14 * DAY, 300)
    for node in (1, 14):  # a source and a destination
        path = run.trajectory(node, drawn).embeddings
        size = np.linalg.norm(path, axis=1)[1:]
        assert np.max(np.linalg.norm(np.diff(path, axis=0), axis=1) / size) < 0.03
        near = run.trajectory(node, [begin + 7 * DAY, begin + 7 * DAY + 10]).embeddings
        assert np.linalg.norm(near[1] - near[0]) < 1e-4 * np.linalg.norm(near[0])
        assert np.linalg.norm(path[-1] - path[0]) > 0.01 * size[0]  # and it does move
