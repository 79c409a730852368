"""Building blocks of models."""

from contig.layers.attention import TemporalAttention
from contig.layers.cells import SplitGRUCell, SplitRNNCell
from contig.layers.decoders import NodeDecoder, PairDecoder
from contig.layers.mixer import MixerLayer
from contig.layers.node_signatures import NodeSignatures
from contig.layers.ode import Coupling, GatedODE, latest_graph, series_degree
from contig.layers.split_linear import SplitLinear
from contig.layers.time import Elapsed, FixedTimeEncoding, LogTimeEncoding, TimeEncoding
from contig.layers.transformer import TransformerLayer

__all__ = [
    "Coupling",
    "Elapsed",
    "FixedTimeEncoding",
    "GatedODE",
    "LogTimeEncoding",
    "MixerLayer",
    "NodeDecoder",
    "NodeSignatures",
    "PairDecoder",
    "SplitGRUCell",
    "SplitLinear",
    "SplitRNNCell",
    "TemporalAttention",
    "TimeEncoding",
    "TransformerLayer",
    "latest_graph",
    "series_degree",
]
