"""Random walks forward in time, and vectors learned from them by skip-gram."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from contig.history import History

Bias = Literal["uniform", "linear"]


def temporal_walks(
    history: History, count: int, length: int, start: Bias = "uniform", step: Bias = "uniform"
) -> Tensor:
    """Draw ``count`` walks of up to ``length`` nodes, ``[count, length]``; shorter ones are padded with -1.

    A walk starts with an event, in either direction, and every next event is strictly later than the one
    before. ``start`` selects the first event: ``linear`` prefers late ones, the ``r``-th with weight ``r``.
    ``step`` selects among a node's ``m`` later events: ``linear`` prefers the next ones, the ``r``-th with
    weight ``m - r + 1``. Draws come from torch's global generator.
    """
    events = history.event_indices()
    first = events[_draw(torch.full((count,), len(events), device=history.device), start)]
    ends = torch.stack([history.events["src"][first], history.events["dst"][first]], dim=1)
    turned = torch.rand(count, device=history.device) < 0.5
    ends = torch.where(turned.unsqueeze(1), ends.flip(1), ends)
    path, time = [ends[:, 0], ends[:, 1]], history.events["t"][first]
    alive = torch.ones(count, dtype=torch.bool, device=history.device)
    for _ in range(2, length):
        node = path[-1].clamp(min=0)
        past = history.count_before(node, _just_after(time))
        left = history.segments.length[node] - past
        alive = alive & (left > 0)
        if not bool(alive.any()):
            break
        ahead = _draw(left.clamp(min=1), step, late=False)
        entry = torch.where(alive, history.segments.start[node] + past + ahead, 0)
        path.append(torch.where(alive, history.segments.entry_node[entry].long(), -1))
        time = torch.where(alive, history.segments.entry_time[entry], time)
    short = torch.full((count, length - len(path)), -1, device=history.device)
    return torch.cat([torch.stack(path, dim=1), short], dim=1)


def _draw(sizes: Tensor, bias: Bias, late: bool = True) -> Tensor:
    """Draw an integer below each size; ``linear`` has weights 1, 2, ... (descending unless ``late``)."""
    uniform = torch.rand(len(sizes), dtype=torch.float64, device=sizes.device)
    if bias == "uniform":
        return (uniform * sizes).long()
    # inverse transform: the first r + 1 of n weights sum to (r + 1) (r + 2) / 2
    share = uniform * sizes * (sizes + 1)
    drawn = ((torch.sqrt(4 * share + 1) - 1) / 2).long().clamp(max=sizes - 1)
    return drawn if late else sizes - 1 - drawn


def _just_after(times: Tensor) -> Tensor:
    """Return times that are later than these, but not later than any larger time."""
    if times.dtype.is_floating_point:
        return torch.nextafter(times, times.new_tensor(torch.inf))
    return times + 1


def window_pairs(walks: Tensor, window: int) -> Tensor:
    """Return every ``(node, other)`` at most ``window`` steps apart on a walk, both ways, ``[pairs, 2]``."""
    found = []
    for apart in range(1, min(window, walks.shape[1] - 1) + 1):
        both = torch.stack([walks[:, :-apart], walks[:, apart:]], dim=-1).flatten(0, 1)
        both = both[both[:, 1] >= 0]  # padding
        found += [both, both.flip(1)]
    return torch.cat(found)


def skip_gram_loss(node: Tensor, other: Tensor, noise: Tensor) -> Tensor:
    """Return ``-log sig(node . other) - sum log sig(-node . noise)``, averaged over pairs.

    ``node`` and ``other`` are ``[pairs, d]``, ``noise`` is ``[pairs, negatives, d]``.
    """
    near = logsigmoid((node * other).sum(-1))
    far = logsigmoid(-(noise @ node.unsqueeze(2)).squeeze(2)).sum(1)
    return -(near + far).mean()


def noise_distribution(walks: Tensor, num_nodes: int, power: float) -> Tensor:
    """Return the cumulative distribution of nodes: proportional to a power of their visits."""
    visits = torch.bincount(walks[walks >= 0], minlength=num_nodes).double()
    share = torch.where(visits > 0, visits**power, 0)
    return share.cumsum(0) / share.sum()


def learn_vectors(
    walks: Tensor,
    vectors: Tensor,
    *,
    window: int,
    negatives: int,
    power: float,
    passes: int,
    lr: float,
    at_once: int,
) -> Tensor:
    """Train ``vectors`` ``[nodes, d]`` by skip-gram with negative sampling, so that neighbors on walks agree.

    Negatives are drawn in proportion to a ``power`` of a node's visits. Each step of Adam takes ``at_once``
    walks.
    """
    own = vectors.clone().requires_grad_()
    context = torch.zeros_like(vectors, requires_grad=True)
    distribution = noise_distribution(walks, len(vectors), power)
    optimizer = torch.optim.Adam([own, context], lr=lr)
    with torch.enable_grad():
        for _ in range(passes):
            for part in walks[torch.randperm(len(walks), device=walks.device)].split(at_once):
                pairs = window_pairs(part, window)
                uniform = torch.rand((len(pairs), negatives), dtype=torch.float64, device=walks.device)
                noise = torch.searchsorted(distribution, uniform).clamp(max=len(vectors) - 1)
                loss = skip_gram_loss(own[pairs[:, 0]], context[pairs[:, 1]], context[noise])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return own.detach()
