"""Compiled counts against plain Python."""

from __future__ import annotations

import math

import pytest
import torch

from contig.kernels.rank_counts import rank_counts


@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shared", [False, True])
def test_counts_are_those_of_a_loop(shared: bool, dtype: torch.dtype, rows: int) -> None:
    draw = torch.Generator().manual_seed(3)
    scores = torch.randint(-4, 5, (1 if shared else rows, 23), generator=draw).to(dtype)
    scores[0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    marked = torch.rand((rows, 23), generator=draw) < 0.7
    low = torch.randint(-3, 2, (rows,), generator=draw).to(dtype)
    high = low + torch.randint(0, 3, (rows,), generator=draw)
    found = rank_counts(scores.expand(rows, -1), low, high, marked)
    for i, values in enumerate(scores.expand(rows, -1).tolist()):
        kept = [value for value, used in zip(values, marked[i].tolist(), strict=True) if used]
        least, most = low[i].item(), high[i].item()
        expected = (
            sum(value > most for value in kept),
            sum(least <= value <= most for value in kept),
            sum(not math.isfinite(value) for value in kept),
        )
        assert tuple(one[i].item() for one in found) == expected


def test_a_row_that_all_share_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    from contig.kernels.cpu import rank_counts as loops

    seen = []
    run_loop = loops.run_loop

    def watch(loop: object, inputs: tuple[torch.Tensor, ...], *given: object, **named: object) -> None:
        seen.append(inputs[0].shape)
        run_loop(loop, inputs, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(loops, "run_loop", watch)
    scores, bounds = torch.arange(5.0).expand(11, -1), torch.full((11,), 2.0)
    found = rank_counts(scores, bounds, bounds, torch.ones(11, 5, dtype=torch.bool))
    assert seen == [(1, 5)]
    assert found.above.tolist() == [2] * 11


@pytest.mark.parametrize("shape", [(4, 6), (3, 5), (1, 6)])
def test_other_shapes_are_refused(shape: tuple[int, int]) -> None:
    """Compiled loops do not check indices."""
    bounds = torch.zeros(3)
    with pytest.raises(ValueError, match="differ in shape"):
        rank_counts(torch.zeros(3, 6), bounds, bounds, torch.ones(shape, dtype=torch.bool))
