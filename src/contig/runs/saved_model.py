"""The weights and the state in a run's files: checked against the model before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contig.errors import RunError
from contig.models import Model, NodeState

SCHEMA = 1


def restore_model(
    content: Mapping[str, Any], model: Model | None, state: NodeState, events: int, path: Path, **more: type
) -> None:
    """Load the weights, if there is a model, and the state; raise ``RunError`` if they do not fit.

    ``events`` is the length of the stream, ``more`` are the types of other values in ``content``.
    """
    expected = {"weights": dict, "state": dict, **more}
    for name, kind in expected.items():
        if not isinstance(content.get(name), kind) or isinstance(content[name], bool):
            raise unfit(path, f"{name} is not a {kind.__name__}")
    if model is not None:
        check_tensors(model.state_dict(), content["weights"], path, "weights")
        model.load_state_dict(content["weights"])
    check_state(state.blank, state.num_nodes, content["state"], events, path)
    state.restore(content["state"])


def check_tensors(expected: Mapping[str, Tensor], found: Any, path: Path, what: str) -> None:
    """Raise ``RunError`` unless ``found`` has tensors of these names, shapes and types."""
    if not isinstance(found, dict) or found.keys() != expected.keys():
        raise unfit(path, f"the names in {what} are not those of the model")
    for name, tensor in expected.items():
        other = found[name]
        if not isinstance(other, Tensor) or other.shape != tensor.shape or other.dtype != tensor.dtype:
            shape = (
                f"{list(other.shape)} {other.dtype}" if isinstance(other, Tensor) else type(other).__name__
            )
            raise unfit(path, f"{what}.{name} is {shape}, not {list(tensor.shape)} {tensor.dtype}")


def check_state(
    blank: Mapping[str, Tensor],
    count: int,
    saved: Any,
    events: int,
    path: Path,
    nodes: int | None = None,
) -> None:
    """Raise ``RunError`` unless ``saved`` is a state with ``count`` rows, those of all nodes by default."""
    if not isinstance(saved, dict) or saved.keys() != {"rows", "position"}:
        raise unfit(path, "state does not hold rows and position")
    position = saved["position"]
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position <= events:
        raise unfit(path, f"state.position is {position!r}, not in 0..{events:,}")
    expected = {name: row.unsqueeze(0).expand(count, *row.shape) for name, row in blank.items()}
    check_tensors(expected, saved["rows"], path, "state.rows")
    limit = max(events, count if nodes is None else nodes)
    for name, row in blank.items():
        # An integer that begins at -1 names an event or a node, and compiled loops trust it.
        if not row.is_floating_point() and row.numel() == 1 and int(row) == -1:
            rows = saved["rows"][name]
            if len(rows) and not (int(rows.min()) >= -1 and int(rows.max()) < limit):
                raise unfit(path, f"state.rows.{name} is not in -1..{limit:,}")


def unfit(path: Path, reason: str, cure: str = "Restore the file from a copy, or train again.") -> RunError:
    """Return the error for a file that does not fit its run."""
    return RunError(f"{path} does not fit config.json ({reason}). {cure}")


def is_generator_state(value: Any) -> bool:
    """Return whether a value can be the state of a random generator."""
    return isinstance(value, Tensor) and value.dtype == torch.uint8 and value.ndim == 1
