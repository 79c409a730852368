"""Building blocks of models."""

from contig.layers.attention import TemporalAttention
from contig.layers.cells import SplitGRUCell, SplitRNNCell
from contig.layers.decoders import NodeDecoder, PairDecoder
from contig.layers.node_signatures import NodeSignatures
from contig.layers.ode import Coupling, GatedODE, latest_graph, series_degree
from contig.layers.split_linear import SplitLinear
from contig.layers.time import Elapsed, LogTimeEncoding, TimeEncoding

__all__ = [
    "Coupling",
    "Elapsed",
    "GatedODE",
    "LogTimeEncoding",
    "NodeDecoder",
    "NodeSignatures",
    "PairDecoder",
    "SplitGRUCell",
    "SplitLinear",
    "SplitRNNCell",
    "TemporalAttention",
    "TimeEncoding",
    "latest_graph",
    "series_degree",
]
