"""The past of any node before any time."""

from contig.history.columns import EventColumns
from contig.history.index import Choice, History
from contig.history.time_scale import TimeScale
from contig.kernels.lookup import Neighbors

__all__ = ["Choice", "EventColumns", "History", "Neighbors", "TimeScale"]
