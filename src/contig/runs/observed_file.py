"""The reader of ``observed.pt``: nothing of it is used before its shapes, types and ranges are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contig.data.clock import out_of_range
from contig.data.columns import Array
from contig.data.events import EventStream
from contig.data.ids import NodeIds
from contig.errors import RunError
from contig.runs.folder import RunFolder
from contig.runs.saved_model import check_state

NAME = "observed.pt"


def read_observed(folder: RunFolder, trained: EventStream, blank: Mapping[str, Tensor]) -> dict[str, Any]:
    """Read the events observed after the training, and the state after them.

    ``trained`` is the stream of the training, ``blank`` the initial row of a node's state.
    """
    saved, path = folder.load(NAME), folder.path / NAME
    problem = next(_problems(saved, trained), None)
    if problem is not None:
        raise damaged(path, problem)
    nodes, events = trained.num_nodes + len(saved["labels"]), len(trained) + len(saved["events"]["t"])
    check_state(blank, nodes, saved["state"], events, path)
    if saved.get("tip") is not None:
        _check_rows(saved["tip"], blank, nodes, events, path)
    return saved


def damaged(path: Path, problem: str) -> RunError:
    """Return the error for content that cannot be right."""
    return RunError(
        f"{path} is damaged: {problem}. Restore it from a copy, or delete it and update the run again with "
        "the events since its training."
    )


def _problems(saved: dict[str, Any], trained: EventStream) -> Iterator[str]:
    """Yield what is wrong with the events and the nodes."""
    kinds = {"events": dict, "labels": list, "is_dst": list | None, "state": dict, "serving": str}
    for name, kind in kinds.items():
        if name not in saved or not isinstance(saved[name], kind):
            yield f"{name} is missing or of another type"
            return
    columns = _columns(saved["events"], trained)
    if columns is None:
        yield "its columns are not those of the run's events"
        return
    known = saved.get("event_labels")
    if known is not None and not _is_label_column(known, len(columns["t"])):
        yield "event_labels is not a column of labels"
    later = saved.get("training_labels")
    if later is not None and not _are_training_labels(later, trained):
        yield "training_labels are not labels of training events"
    if (late := saved.get("late")) is not None and not _is_flag_column(late, len(columns["t"])):
        yield "late is not a column of flags"
        return
    yield from _label_problems(saved["labels"], saved["is_dst"], trained.ids)
    yield from _event_problems(columns, saved, trained)


def _columns(events: dict[str, Any], trained: EventStream) -> dict[str, Array] | None:
    """Return the columns if their names, shapes and types are those of a stream that follows another."""
    expected = {"src": trained.src, "dst": trained.dst, "t": trained.t, "features": trained.edge_features}
    found = {name: column.numpy() for name, column in events.items() if isinstance(column, Tensor)}
    kept = {name: column for name, column in expected.items() if column is not None}
    if found.keys() != kept.keys() or events.keys() != kept.keys():
        return None
    rows = {len(column) if column.ndim else -1 for column in found.values()}
    same = all(
        column.dtype == kept[name].dtype and column.shape[1:] == kept[name].shape[1:]
        for name, column in found.items()
    )
    return found if same and len(rows) == 1 and min(rows) >= 0 else None


def _is_label_column(found: Any, events: int) -> bool:
    return isinstance(found, Tensor) and found.dtype == torch.int64 and found.shape == (events,)


def _are_training_labels(found: Any, trained: EventStream) -> bool:
    if trained.label is None or not isinstance(found, dict) or found.keys() != {"rows", "labels"}:
        return False
    rows, labels = found["rows"], found["labels"]
    if not isinstance(rows, Tensor) or rows.ndim != 1:
        return False
    if not (_is_label_column(rows, len(rows)) and _is_label_column(labels, len(rows))):
        return False
    return bool(((rows >= 0) & (rows < len(trained))).all())


def _is_flag_column(found: Any, events: int) -> bool:
    return isinstance(found, Tensor) and found.dtype == torch.bool and found.shape == (events,)


def _label_problems(labels: list[Any], is_dst: list[Any] | None, ids: NodeIds) -> Iterator[str]:
    text = ids.labels.dtype.kind == "U"
    if not all(isinstance(label, str) if text else _is_int64(label) for label in labels):
        yield "labels are not of the type of the run's ids"
        return
    if (is_dst is None) == ids.bipartite or (is_dst is not None and len(is_dst) != len(labels)):
        yield "is_dst does not fit the labels"
        return
    sides = [False] * len(labels) if is_dst is None else is_dst
    if not all(isinstance(side, bool) for side in sides):
        yield "is_dst holds other values than true and false"
    elif len(set(zip(sides, labels, strict=True))) != len(labels):
        yield "a label occurs twice"
    elif any(ids.number_of(label, dst=side) >= 0 for side, label in zip(sides, labels, strict=True)):
        yield "a label is one of the training's"


def _is_int64(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _event_problems(columns: dict[str, Array], saved: dict[str, Any], trained: EventStream) -> Iterator[str]:
    nodes, t = trained.num_nodes + len(saved["labels"]), columns["t"]
    for name in ("src", "dst"):
        numbers = columns[name]
        if len(numbers) and not (int(numbers.min()) >= 0 and int(numbers.max()) < nodes):
            yield f"{name} is not in 0..{nodes:,}"
            return
    if trained.ids.is_dst is not None:
        side = np.concatenate([trained.ids.is_dst, np.array(saved["is_dst"], dtype=bool)])
        if side[columns["src"]].any() or not side[columns["dst"]].all():
            yield "sources and destinations are mixed up"
    too_far = t.dtype.kind == "i" and bool(out_of_range(t).any())
    if too_far or not np.isfinite(t).all() or not _in_order(trained.t[-1:], t, saved.get("late")):
        yield "t decreases, begins before the end of the training's events, or is out of range"
    if "features" in columns and not np.isfinite(columns["features"]).all():
        yield "features are not finite"


def _in_order(last: Array, t: Array, late: Any) -> bool:
    """Return whether times ascend, but for those of late events, which are before the clock."""
    clock = np.maximum.accumulate(np.concatenate([last, t]))[:-1]
    expected = np.zeros(len(t), dtype=bool) if late is None else late.numpy()
    return bool(np.array_equal(t < clock, expected))


def _check_rows(tip: Any, blank: Mapping[str, Tensor], nodes: int, events: int, path: Path) -> None:
    """Check the rows of some nodes at an earlier position."""
    if not isinstance(tip, dict) or tip.keys() != {"position", "nodes", "rows"}:
        raise damaged(path, "tip does not hold a position, nodes and rows")
    some = tip["nodes"]
    if not isinstance(some, Tensor) or some.dtype != torch.int64 or some.ndim != 1:
        raise damaged(path, "tip.nodes is not a list of nodes")
    if len(some) and not (int(some.min()) >= 0 and int(some.max()) < nodes):
        raise damaged(path, f"tip.nodes is not in 0..{nodes:,}")
    check_state(blank, len(some), {"rows": tip["rows"], "position": tip["position"]}, events, path, nodes)
