"""The schema of results, in Python and in JSON: what all tasks share.

The metrics of a selection without events are NaN, and their keys are absent from JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar, Generic, Self, TypeVar

from contig.data.events import EventStream
from contig.data.splits import DEFAULT_DESCRIPTION, Holdout
from contig.schema import Json, Record, encode, inlined, rename_key, stored_as

SCHEMA = 2
FORMER_NEGATIVES = {
    "historical": "historical-source",
    "inductive": "inductive-source",
}  # names before schema 2
UNMEASURED = "not measured: the model cannot score unseen nodes"

M = TypeVar("M")
R = TypeVar("R", bound="TaskResult")


# -- metrics of a set of events -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkMetrics(Record):
    """Average precision and area under the ROC curve: the mean over batches, and over all events at once."""

    ap: float = nan
    auc: float = nan
    ap_overall: float = nan
    auc_overall: float = nan
    events: int


@dataclass(frozen=True, kw_only=True, eq=False)
class RankMetrics(Record):
    """Mean reciprocal rank, and the share of events whose true destination is among the first K."""

    mrr: float = nan
    recall_at_5: float = stored_as("recall@5", nan)
    recall_at_10: float = stored_as("recall@10", nan)
    recall_at_15: float = stored_as("recall@15", nan)
    recall_at_20: float = stored_as("recall@20", nan)
    events: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Selections(Record, Generic[M]):
    """The metrics of every selection of events.

    ``transductive`` are all events, or under ``holdout=paper`` those between nodes seen in training;
    ``inductive`` are the events with a new node. The other three divide all events by how many of their two
    nodes are new.
    """

    transductive: M
    inductive: M
    old_old: M
    new_old: M
    new_new: M

    def each(self) -> dict[str, M]:
        """Return the metrics by the name of their selection."""
        return {name: getattr(self, name) for name in Selections.__dataclass_fields__}


# -- protocols ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Protocol(Record):
    """How a task was measured; ``transductive`` and ``inductive`` say which events these selections are."""

    task: str
    split: str
    holdout: Holdout
    transductive: str
    inductive: str

    KNOWN: ClassVar[str] = "events between nodes seen in training"
    NEW: ClassVar[str] = "events with a new node"

    @classmethod
    def of(
        cls,
        task: str,
        holdout: Holdout,
        *,
        inductive: bool,
        split: str = DEFAULT_DESCRIPTION,
        **details: Any,
    ) -> Self:
        """Describe a task for a model that is ``inductive`` or not; ``details`` are fields of a subclass."""
        known = only_known_nodes(holdout, inductive)
        return cls(
            task=task,
            split=split,
            holdout=holdout,
            transductive=cls.KNOWN if known else "all events",
            inductive=cls.NEW if inductive else UNMEASURED,
            **details,
        )


def only_known_nodes(holdout: Holdout, inductive: bool) -> bool:
    """Return whether ``transductive`` leaves out events of nodes that training has not seen."""
    return holdout == "paper" or not inductive


# -- results ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskResult(Record):
    """Base of all results: a task adds its metrics to the protocol by which they were measured."""

    protocol: Protocol


# -- evaluations of a run -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class DataFacts(Record):
    """The events of a run: their origin and their number."""

    origin: str
    events: int
    nodes: int

    @classmethod
    def of(cls, stream: EventStream) -> DataFacts:
        return DataFacts(origin=stream.origin, events=len(stream), nodes=stream.num_nodes)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunFacts(Record):
    """What a reader must know about a run to compare its numbers with others."""

    contig: str  # the version that measured
    model: str
    data: DataFacts
    seed: int
    batch_size: int
    hardware: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation(Record, Generic[R]):
    """A task's result on one run."""

    facts: RunFacts = inlined()
    result: R = inlined()

    def as_dict(self) -> Json:
        return {"schema": SCHEMA, **encode(self)}


def upgrade(content: Json) -> Json:
    """Upgrade a result of schema 1, or one written before schemas had versions.

    Those measured inductive events by one protocol, and had historical and inductive negatives of the event's
    own source only.
    """
    content = rename_key(content, "protocol", "rule", "holdout")
    protocol = content.get("protocol")
    if not isinstance(protocol, dict) or "negatives" not in protocol:
        return content
    kind = protocol["negatives"]
    content = {**content, "protocol": {**protocol, "negatives": FORMER_NEGATIVES.get(kind, kind)}}
    if protocol.get("task") != "link":
        return content
    content["protocol"]["inductive_dyglib"] = "not measured by this version"
    return {"inductive_dyglib": {"events": content.get("inductive", {}).get("events", 0)}, **content}
