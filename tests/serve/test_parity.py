"""Events through the service give the scores and embeddings of an offline run that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from contig.data.events import EventStream
from contig.live import Engine
from contig.runs.run import Run
from contig.serve.client import Client

EVENTS = 60


def later(run: Run) -> list[dict[str, Any]]:
    """Events after those of the run, many at equal times, some with new nodes."""
    rng = np.random.default_rng(8)
    t = run.stream.t[-1] + np.sort(rng.integers(1, 25, EVENTS)).astype(float)
    return [
        {"src": f"n{s}", "dst": f"n{d}", "t": float(at)}
        for s, d, at in zip(rng.integers(0, 18, EVENTS), rng.integers(10, 20, EVENTS), t, strict=True)
    ]


@pytest.fixture(scope="module")
def offline(trained: Callable[..., Run]) -> tuple[Run, Run]:
    """A run as trained, and a copy that has observed everything."""
    from support.trained import text_id_stream

    before = trained("served", text_id_stream(), epochs=1)
    after = trained("observed", text_id_stream(), epochs=1)
    events = later(after)
    columns = ([event[name] for event in events] for name in ("src", "dst", "t"))
    after.observe(EventStream.from_arrays(*columns, bipartite=True))
    return before, after


@pytest.mark.parametrize("sizes", [[1] * EVENTS, [7, 1, 20, 2, 30]], ids=["one by one", "mixed batches"])
def test_live_scores_are_those_of_the_observed_run(
    sizes: list[int], offline: tuple[Run, Run], tmp_path: Path, start: Callable[..., TestClient]
) -> None:
    before, after = offline
    events, live, pairs, first = later(before), [], [], 0
    known = set(zip(before.stream.ids.labels.tolist(), before.stream.ids.is_dst.tolist(), strict=True))
    with Engine.open(tmp_path / "live", before.path, device="cpu") as engine:
        http = start(engine)
        with Client("http://127.0.0.1", transport=http._transport) as client:
            for size in sizes:
                batch = events[first : first + size]
                src, dst, t = batch[0].values()
                if {(src, False), (dst, True)} <= known:  # before the service knows this event
                    live += [one.score for one in client.score(src, dst, at=t)]
                    pairs.append((src, dst, t))
                assert client.observe(batch).accepted == size
                known |= {(event["src"], False) for event in batch} | {
                    (event["dst"], True) for event in batch
                }
                first += size
            names = ["n3", "n0", "n17"]
            vectors = np.stack([client.embed(id, 125.5, side="src") for id in names])
    np.testing.assert_allclose(vectors, after.embed(names, 125.5, "src"), atol=1e-6)
    assert len(pairs) > len(sizes) // 2
    src, dst, t = (list(column) for column in zip(*pairs, strict=True))
    np.testing.assert_allclose(live, after.score(src, dst, t, as_of="event").score, atol=1e-6)
