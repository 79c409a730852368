"""The past of any node before any time."""

from contig.history.index import Choice, EventColumns, History, Neighbors

__all__ = ["Choice", "EventColumns", "History", "Neighbors"]
