"""The building blocks models are made of."""

from contig.layers.attention import TemporalAttention
from contig.layers.codes import NodeCodes
from contig.layers.decoders import NodeDecoder, PairDecoder
from contig.layers.ode import Coupling, GatedODE, latest_graph, series_degree
from contig.layers.parted import GRUCell, PartedLinear, RNNCell
from contig.layers.rows import Rows, take
from contig.layers.time import LogTimeEncoding, TimeEncoding, elapsed

__all__ = [
    "Coupling",
    "GRUCell",
    "GatedODE",
    "LogTimeEncoding",
    "NodeCodes",
    "NodeDecoder",
    "PairDecoder",
    "PartedLinear",
    "RNNCell",
    "Rows",
    "TemporalAttention",
    "TimeEncoding",
    "elapsed",
    "latest_graph",
    "series_degree",
    "take",
]
