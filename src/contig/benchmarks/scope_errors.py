"""What ``scope=near`` and ``scope=pair`` of ConTIG leave out of the paper's ``A``.

    python -m contig.benchmarks.scope_errors collegemsg enron wikipedia mooc

A training with ``scope=all`` gives the weights and, at the end of its stream, the stored states. From these
every scope computes the states, just after the last event, of the nodes at both ends of a sample of events.
The error of a node is the distance to its state with ``scope=all``, relative to the length of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from torch import Tensor

from contig.data.datasets import open_stream
from contig.models.contig import ConTIG
from contig.models.state import NodeState
from contig.runs.config import build_model
from contig.runs.run import Run
from contig.training.fit import fit

CHUNK = 100  # nodes at a time: with all namers of a popular node, more would need gigabytes
SETTINGS: dict[str, Any] = {"dim": 64, "time_dim": 64, "neighbors": 10, "scope": "all"}
VARIANTS: dict[str, dict[str, Any]] = {
    "pair": {"scope": "pair"},
    **{f"near, {namers} namers": {"scope": "near", "namers": namers} for namers in (8, 16, 32, 64)},
    "near, 32 namers, 2 hops": {"scope": "near", "namers": 32, "hops": 2},
    "near, all namers": {"scope": "near", "namers": None},
}


class Error(NamedTuple):
    """The relative error of node states: its mean over the ends of events, and its 90th percentile."""

    mean: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f}% / {100 * self.high:.1f}%"


def measure(run: Run, events: int) -> Iterator[tuple[str, Error]]:
    """Compare every variant with the run's own ``scope=all``, for both ends of a random sample of events."""
    drawn = np.random.default_rng(0).permutation(len(run.stream))[:events]
    ends = np.concatenate([run.stream.src[drawn], run.stream.dst[drawn]])
    rows = torch.from_numpy(ends).to(run.history.device)
    exact = _states(run, rows)
    for name, options in VARIANTS.items():
        error = (_states(run, rows, **options) - exact).norm(dim=1) / exact.norm(dim=1)
        yield name, Error(error.mean().item(), error.quantile(0.9).item())


@torch.no_grad()
def _states(run: Run, nodes: Tensor, **options: Any) -> Tensor:
    """Return the states of nodes just after the last event, by the run's weights with other options."""
    if options.get("namers", 0) is None:
        options["namers"] = int(np.bincount(np.concatenate([run.stream.src, run.stream.dst])).max())
    given = {**run.config.as_dict()["options"], **options}
    model = build_model(run.config.of("contig", given), run.stream)
    assert isinstance(model, ConTIG)
    model.load_state_dict(run.model.state_dict())
    model.to(run.history.device).eval()
    state = _with_namers(run, model)
    now = run.history.events["t"].new_tensor(run.stream.t[-1].item() + 1)
    parts = [model.updated(state, run.history, chunk, now) for chunk in nodes.split(CHUNK)]
    return torch.cat(parts)


def _with_namers(run: Run, model: ConTIG) -> NodeState:
    """Return the run's stored states, with the number of nodes whose latest partner each node is."""
    state = NodeState(model.blank(), run.state.num_nodes, run.history.device)
    for name, rows in run.state.rows.items():
        state[name].copy_(rows)
    if "named" in state.rows:
        everyone = torch.arange(state.num_nodes, device=run.history.device)
        latest = model.latest(state, run.history, everyone)
        partners = latest.partner[latest.exists & (latest.partner != everyone)]
        state["named"].copy_(torch.bincount(partners, minlength=state.num_nodes))
    return state


def main(
    datasets: Annotated[list[str], typer.Argument(help="Names of datasets, or files.")],
    events: Annotated[int, typer.Option(help="First events of each to use.")] = 60_000,
    epochs: Annotated[int, typer.Option(help="Epochs of the training with scope=all.")] = 1,
    sample: Annotated[int, typer.Option(help="Events whose ends are compared.")] = 500,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Measure the error of node states by scope: mean / 90th percentile."""
    for dataset in datasets:
        stream = open_stream(dataset)[:events]
        run = fit(stream, "contig", epochs=epochs, device=device, show=False, **SETTINGS)
        for name, error in measure(run, sample):
            typer.echo(f"{dataset:<12} {name:<24} {error}")


if __name__ == "__main__":
    typer.run(main)
