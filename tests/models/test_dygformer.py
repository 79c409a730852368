"""DyGFormer against a plain loop over one pair at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from support.problems import random_stream, shape_of, tiny
from support.twins import NOW, Past, Twin, model_of
from torch import Tensor

from contig.errors import ConfigError
from contig.history import History
from contig.models.dygformer import cooccurrences


def test_cooccurrences_are_counts_in_both_sequences() -> None:
    draw = torch.Generator().manual_seed(3)
    ours, theirs = torch.randint(-1, 5, (2, 6, 7), generator=draw)
    found = cooccurrences(ours, theirs)
    for row, (a, b) in enumerate(zip(ours.tolist(), theirs.tolist(), strict=True)):
        first, second = Counter(a), Counter(b)
        for sequence, counts in ((a, found[0][row]), (b, found[1][row])):
            expected = [(first[x], second[x]) if x >= 0 else (0, 0) for x in sequence]
            assert counts.tolist() == [list(map(float, pair)) for pair in expected]


class Plain(Twin):
    """DyGFormer for one pair."""

    def sequence(self, v: int, t: int) -> list[Past | None]:
        """The node itself, its past events and nothing, up to the full length; the node has event -1."""
        length = self.model.opt.sequence
        entries: list[Past | None] = [(v, -1, t), *self.past(v, t, length - 1)]
        return entries + [None] * (length - len(entries))

    def channels(self, entry: Past | None, t: int, counts: list[int]) -> list[Tensor]:
        model = self.model
        hidden = [torch.relu(model.cooccurrence.hidden(torch.tensor([float(n)]))) for n in counts]
        together = model.cooccurrence.out(hidden[0] + hidden[1])
        widths = (model.node_width, model.edge_width, model.opt.time_dim)
        if entry is None:
            return [*map(torch.zeros, widths), together]
        node, event, when = entry
        features = torch.zeros(widths[1]) if event < 0 else self.features(event)
        return [self.node_features(node), features, self.waves(t - when), together]

    def tokens(
        self, ours: list[Past | None], theirs: list[Past | None], mine: list[Past | None], t: int
    ) -> list[Tensor]:
        sides = [Counter(entry[0] for entry in side if entry) for side in (ours, theirs)]
        rows = [self.channels(e, t, [side[e[0]] if e else 0 for side in sides]) for e in mine]
        size = self.model.opt.patch
        patches = [rows[i : i + size] for i in range(0, len(rows), size)]
        return [
            torch.cat([self.project(c, torch.cat([row[c] for row in patch])) for c in range(4)])
            for patch in patches
        ]

    def project(self, channel: int, patch: Tensor) -> Tensor:
        layer = self.model.channels[channel]
        projected: Tensor = layer.project(patch) if len(patch) else layer.constant
        return projected

    def logit(self, u: int, v: int, t: int) -> float:
        ours, theirs = self.sequence(u, t), self.sequence(v, t)
        first, second = (self.tokens(ours, theirs, side, t) for side in (ours, theirs))
        read = self.model.transformer(torch.stack(first + second)[None])[0]
        ends = [self.model.out(sum(half) / len(half)) for half in (read[: len(first)], read[len(first) :])]
        return float(self.model.decoder(*ends))


@pytest.mark.parametrize("start", [0, NOW])
@pytest.mark.parametrize(
    ("edge_width", "settings"),
    [
        (3, {}),
        (0, {"sequence": 6, "patch": 3}),
        (2, {"node_features": True, "sequence": 6, "patch": 2, "layers": 1}),
    ],
    ids=str,
)
@torch.no_grad()
def test_against_a_plain_twin(edge_width: int, settings: dict[str, Any], start: int) -> None:
    """At times among the events, ties included, with three candidates for each source."""
    stream = random_stream(9, events=30, num_nodes=8, edge_width=edge_width, start=start)
    model = model_of("dygformer", stream, **settings)
    for channel in model.channels:  # constants that are not zero
        if channel.constant is not None:
            channel.constant.normal_()
    twin, history = Plain(model, stream), History.from_stream(stream)
    src, dst = torch.arange(8), (torch.arange(8).unsqueeze(1) * 3 + torch.tensor([0, 1, 5])) % 8
    times = torch.tensor(stream.t[[0, 5, 9, 14, 17, 22, 29, 29]]) + torch.arange(8) % 2
    found = model.link(model.new_state(8), history, src, dst, times, times[0])
    expected = [
        [twin.logit(u, v, t) for v in row]
        for u, row, t in zip(src.tolist(), dst.tolist(), times.tolist(), strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-5)
    assert found.std() > 1e-3


def test_patches_must_fit() -> None:
    with pytest.raises(ConfigError, match=r"^patch=3 must divide sequence=4"):
        tiny("dygformer", shape_of(random_stream(0)), patch=3)
