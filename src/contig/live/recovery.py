"""Opening a live folder: the newest good snapshot, and the rest of the log on top."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contig.errors import DamagedLogError, RunError
from contig.history import History
from contig.live.events import StreamTraits
from contig.live.graph import LiveGraph
from contig.live.ids import NodeIndex
from contig.live.log import EventLog
from contig.live.records import BatchRecord, in_order_runs
from contig.live.run_copy import FOLDER as RUN
from contig.live.run_copy import copy_run, fingerprint
from contig.live.settings import Settings
from contig.live.snapshots import SnapshotFolder
from contig.models import Model
from contig.runs.run import Run
from contig.streaming.batches import warm_up

log = logging.getLogger("contig")

REPLAYED_AT_ONCE = 4096  # events


@dataclass(frozen=True, eq=False)
class TrainedPart:
    """What an engine takes from its run."""

    model: Model
    history: History
    ids: NodeIndex
    batch_size: int
    traits: StreamTraits
    late: NDArray[np.int64]  # positions of events that no state observes


@dataclass(frozen=True, eq=False)
class Restored:
    """An engine's content, as it was when it last acknowledged something."""

    graph: LiveGraph
    ids: NodeIndex
    trained_events: int
    trained_nodes: int
    traits: StreamTraits
    snapshot_batches: int | None  # of the snapshot that was loaded
    snapshot_events: int


def adopt_run(folder: Path, run: Path | None, event_log: EventLog) -> None:
    """Copy the run at the first opening; later, check that it is the same."""
    if not (folder / RUN).exists():
        if event_log.end.batches:
            raise RunError(f"{folder / RUN} is missing; restore it from a backup.")
        if run is None:
            raise RunError(f"{folder} is not a live folder yet; pass the run to serve.")
        copy_run(run, folder)
    known = event_log.fact("run")
    if known is None:
        event_log.set_fact("run", known := fingerprint(folder / RUN))
    if fingerprint(folder / RUN) != known:
        raise RunError(f"{folder / RUN} was changed; restore it from a backup.")
    if run is not None and run.exists() and fingerprint(run) != known:
        raise RunError(
            f"{folder} serves another version of {run}: the run was trained or updated since. To keep "
            f"serving that version: contig serve {folder / RUN} --folder {folder}. To serve the new one, "
            f"without the events that were sent to the service: contig serve {run} --folder NEW-FOLDER."
        )


def restore(folder: Path, event_log: EventLog, settings: Settings, device: str) -> Restored:
    """Rebuild the state after everything in the log."""
    trained = _trained(folder / RUN, device)
    trained_events, trained_nodes = trained.history.num_events, len(trained.ids)
    graph, batches, events = None, None, 0
    for batches, content in SnapshotFolder(folder).load_good():
        if batches > event_log.end.batches:
            raise DamagedLogError(
                f"The event log of {folder} ends before its newest snapshot; events are lost. Restore the "
                "folder from a backup, or remove newer snapshots to serve without those events."
            )
        graph, events = _from_snapshot(trained, content, settings), len(content["events"]["t"])
        break
    if graph is None:
        graph = _from_start(trained, event_log, settings, folder)
    _replay(graph, trained.ids, event_log, batches or 0)
    return Restored(
        graph,
        trained.ids,
        trained_events,
        trained_nodes,
        trained.traits,
        batches,
        events,
    )


def _trained(path: Path, device: str) -> TrainedPart:
    run = Run.open(path, device)
    if run.state.on_host:
        run = Run.open(path, "cpu")  # pinned memory cannot grow
    stream = run.stream
    time, plans = stream.time_span, run.features
    plan = None if plans is None else plans.events
    history = run.arrivals.index(run.model, run.state)
    warm_up(run.model, history)
    return TrainedPart(
        model=run.model,
        history=history,
        ids=NodeIndex(stream.ids),
        batch_size=run.batch_size,
        traits=StreamTraits(
            stream.ids.labels.dtype.kind == "i", time, stream.edge_width, plan, stream.read_as
        ),
        late=run.arrivals.late,
    )


def _from_start(trained: TrainedPart, event_log: EventLog, settings: Settings, folder: Path) -> LiveGraph:
    if event_log.first_batch:
        raise DamagedLogError(
            f"{folder} has no usable snapshot, and the log no longer has the events before it. Restore the "
            "folder from a backup."
        )
    graph = LiveGraph(trained.model, trained.history, trained.batch_size, settings.as_of, late=trained.late)
    graph.catch_up()
    return graph


def _from_snapshot(trained: TrainedPart, content: dict[str, Any], settings: Settings) -> LiveGraph:
    columns = {name: column.numpy() for name, column in content["events"].items()}
    record = BatchRecord(
        columns["src"],
        columns["dst"],
        columns["t"],
        columns["late"],
        columns.get("features"),
        content["labels"],
        content["is_dst"],
    )
    state = trained.model.new_state(trained.history.num_nodes)
    state.restore({"rows": content["rows"], "position": content["position"]})
    graph = LiveGraph(
        trained.model,
        trained.history,
        trained.batch_size,
        settings.as_of,
        state=state,
        complete=content["complete"],
        late=trained.late,
    )
    add_labels(trained.ids, record)
    graph.load_events(record)
    return graph


def _replay(graph: LiveGraph, ids: NodeIndex, event_log: EventLog, first: int) -> None:
    """Apply the batches of the log from a number on."""
    waiting: list[BatchRecord] = []
    for record in event_log.batches(first):
        waiting.append(record)
        if sum(map(len, waiting)) >= REPLAYED_AT_ONCE:
            _apply(graph, ids, waiting)
            waiting = []
    _apply(graph, ids, waiting)


def _apply(graph: LiveGraph, ids: NodeIndex, records: list[BatchRecord]) -> None:
    for record in in_order_runs(records, graph.clock):
        add_labels(ids, record)
        graph.append(record)


def add_labels(ids: NodeIndex, record: BatchRecord) -> None:
    """Assign numbers to the nodes that a record names first."""
    sides = record.is_dst or [False] * len(record.labels)
    for label, dst in zip(record.labels, sides, strict=True):
        ids.add(label, dst=dst)
