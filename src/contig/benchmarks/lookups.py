"""The last neighbours of each batch's nodes as of now: our history and PyTorch Geometric's loader."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contig.benchmarks.timing import need
from contig.data.events import EventStream
from contig.history import History


@dataclass(frozen=True)
class Batch:
    """Consecutive events, and what is asked before they are taken in."""

    src: Tensor
    dst: Tensor
    t: Tensor
    nodes: Tensor  # the distinct ones of both ends
    now: Tensor  # the first event's time, for each of them


def stream_columns(stream: EventStream, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    src, dst, t = (torch.from_numpy(x.copy()).to(device) for x in (stream.src, stream.dst, stream.t))
    return src, dst, t


def batches(stream: EventStream, size: int = 200, device: torch.device | str = "cpu") -> list[Batch]:
    parts = (x.split(size) for x in stream_columns(stream, device))
    made = []
    for src, dst, t in zip(*parts, strict=True):
        nodes = torch.cat([src, dst]).unique()
        made.append(Batch(src, dst, t, nodes, t[0].expand(len(nodes))))
    return made


def run_loader(stream: EventStream, parts: list[Batch], k: int = 15) -> list[Tensor]:
    """The peer: ask about the present of each batch's nodes, then take the batch in."""
    need("torch_geometric")
    from torch_geometric.nn.models.tgn import LastNeighborLoader

    loader = LastNeighborLoader(stream.num_nodes, size=k, device=parts[0].src.device)
    found = []
    for part in parts:
        found.append(loader(part.nodes)[2])
        loader.insert(part.src, part.dst)
    return found


def run_history(history: History, parts: list[Batch], k: int = 15, *, append: bool) -> list[Tensor]:
    """Ours: the same question; a history of the whole stream needs no ``append``."""
    found = []
    for part in parts:
        answer = history.before(part.nodes, part.now, k)
        found.append(answer.event[answer.mask])
        if append:
            history.append(part.src, part.dst, part.t)
    return found
