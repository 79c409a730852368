"""Live serving: embeddings, scores and recommendations while events keep coming."""

from contig.live.answers import (
    Embeddings,
    FoundNode,
    LiveTrajectory,
    PastEvent,
    Receipt,
    Rejection,
    Status,
)
from contig.live.engine import Engine
from contig.live.events import Events
from contig.live.settings import Settings

__all__ = [
    "Embeddings",
    "Engine",
    "Events",
    "FoundNode",
    "LiveTrajectory",
    "PastEvent",
    "Receipt",
    "Rejection",
    "Settings",
    "Status",
]
