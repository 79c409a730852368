"""TPNet against a plain loop over one pair at a time; its sketches have tests of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.problems import batch_of, random_stream
from support.twins import NOW, Twin, model_of
from torch import Tensor

from contig.history import History
from contig.models import NodeState


class Plain(Twin):
    """TPNet for one pair, with the sketches of a state."""

    def __init__(self, model: Any, stream: Any, state: NodeState, history: History) -> None:
        super().__init__(model, stream)
        self.state, self.history = state, history

    def rows(self, v: int, t: int) -> Tensor:
        found = self.model.sketches.read(self.state, self.history, torch.tensor([v]), torch.tensor([t]))
        return found.rows[0] * found.decay[0].unsqueeze(1)

    def relate(self, a: int, b: int, t: int) -> Tensor:
        pairs = [(self.rows(x, t), self.rows(y, t)) for x, y in ((a, a), (a, b), (b, b))]
        logs = [torch.log1p(torch.relu(x @ y)) for one, other in pairs for x in one for y in other]
        related: Tensor = self.model.relation(torch.stack(logs))
        return related

    def embed(self, node: int, u: int, v: int, t: int) -> Tensor:
        k = self.model.opt.neighbors
        tokens = []
        for w, event, when in self.past(node, t, k):
            parts = [self.waves(t - when), self.features(event), self.node_features(w)]
            tokens.append(self.model.project(torch.cat([*parts, self.relate(w, u, t), self.relate(w, v, t)])))
        tokens += [torch.zeros(self.model.dim)] * (k - len(tokens))
        mixed = self.model.mixer(torch.stack(tokens)[None])[0]
        embedded: Tensor = sum(mixed) / k
        return embedded

    def logit(self, u: int, v: int, t: int) -> float:
        decoder = self.model.decoder
        hidden = decoder.from_src(self.embed(u, u, v, t)) + decoder.from_dst(self.embed(v, u, v, t))
        return float(decoder.out(torch.relu(hidden + self.model.from_pair(self.relate(u, v, t)))))


@pytest.mark.parametrize("start", [0, NOW])
@pytest.mark.parametrize(
    ("edge_width", "settings"),
    [(3, {}), (0, {"hops": 1, "decay": 0.5}), (2, {"node_features": True, "hops": 2, "layers": 1})],
    ids=str,
)
@torch.no_grad()
def test_against_a_plain_twin(edge_width: int, settings: dict[str, Any], start: int) -> None:
    """In the middle of a stream: later events of the past have partners, but no sketches yet."""
    stream = random_stream(9, events=30, num_nodes=8, edge_width=edge_width, start=start)
    model, history = model_of("tpnet", stream, **settings), History.from_stream(stream)
    state = model.new_state(8)
    for first in range(0, 16, 4):
        model.observe(state, history, batch_of(history, first, first + 4))
    twin = Plain(model, stream, state, history)
    src, dst = torch.arange(5), (torch.arange(5).unsqueeze(1) * 3 + torch.tensor([0, 1, 5])) % 8
    times = torch.tensor(stream.t[[16, 17, 19, 22, 29]]) + torch.arange(5) % 2
    found = model.link(state, history, src, dst, times, times[0])
    expected = [
        [twin.logit(u, v, t) for v in row]
        for u, row, t in zip(src.tolist(), dst.tolist(), times.tolist(), strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-5)
    assert found.std() > 1e-3
