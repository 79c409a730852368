"""A model as a user writes it: a module of its own that imports contig and is not part of it."""

from dataclasses import dataclass

from torch import Tensor

import contig
from contig.layers import Elapsed, LogTimeEncoding, PairDecoder


@dataclass(frozen=True)
class RhythmOptions:
    """Options of Rhythm."""

    dim: int = contig.option(32, "width of embeddings", low=1)
    neighbors: int = contig.option(10, "past events read for a query", low=1)


class Rhythm(contig.Model):
    """Rhythm: a node is the sum of the time encodings of its last events."""

    name = "rhythm"
    options = RhythmOptions

    def __init__(self, options: RhythmOptions, data: contig.DataShape) -> None:
        super().__init__()
        self.neighbors = options.neighbors
        self.elapsed = Elapsed(data.time_scale)  # in the stream's typical interval, whatever its unit
        self.encoding = LogTimeEncoding(options.dim)
        self.decoder = PairDecoder(options.dim)

    def embed(
        self, state: contig.NodeState, history: contig.History, nodes: Tensor, times: Tensor, as_of: Tensor
    ) -> Tensor:
        past = history.before(nodes, times, self.neighbors)
        ages = self.encoding(self.elapsed(times.unsqueeze(1), past.time))  # [queries, neighbors, dim]
        return (ages * past.mask.unsqueeze(2)).sum(dim=1)

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        return self.decoder(src, dst)
