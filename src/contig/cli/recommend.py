"""The command ``recommend``: list the best destinations of sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contig.cli import console, outputs
from contig.cli.commands import Command
from contig.cli.data import Json
from contig.cli.folders import Device, Folder, open_run
from contig.cli.nodes import At, note_time, parse_side, parse_time, read_ids, times_json
from contig.errors import ConfigError
from contig.wording import counted

if TYPE_CHECKING:
    from contig.data.events import EventStream
    from contig.data.ids import NodeIds, Side
    from contig.runs.answers import RecommendationList
    from contig.runs.run import Run

app = typer.Typer()

Node = Annotated[
    str | None, typer.Option("--node", metavar="ID", show_default=False, help="The id of one node.")
]
Nodes = Annotated[
    str | None,
    typer.Option(
        "--nodes",
        metavar="FILE|IDS",
        show_default="every node on its side",
        help="Comma-separated ids, or a file of ids, one per line; needs --out.",
    ),
]
Length = Annotated[int, typer.Option("-k", "--k", metavar="K", min=1, help="Length of a list.")]
ExcludeSeen = Annotated[bool, typer.Option("--exclude-seen", help="Leave out what the node has met before.")]
Candidates = Annotated[
    str | None,
    typer.Option(
        "--candidates",
        metavar="FILE|IDS",
        show_default="all destinations so far",
        help="What may be recommended: comma-separated ids, or a file of ids.",
    ),
]
SideName = Annotated[
    str, typer.Option("--side", metavar="src|dst", help="dst: recommend sources to destinations.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="A .parquet, .csv or .arrow file for the lists."),
]


@app.command(
    cls=Command,
    epilog=console.examples(
        ("contig recommend runs/first --node ann", "the next destinations"),
        ("contig recommend runs/first --node ann --at 2024-05-01", "at an earlier time"),
        ("contig recommend runs/first --node ann --exclude-seen", "new ones only"),
        ("contig recommend runs/first --nodes ids.txt --out x.csv", "many sources"),
        ("contig recommend runs/first --out x.csv", "every source"),
        ("contig recommend runs/first --node tea --side dst", "its next sources"),
    ),
)
def recommend(
    run: Folder,
    node: Node = None,
    nodes: Nodes = None,
    at: At = None,
    k: Length = 10,
    exclude_seen: ExcludeSeen = False,
    candidates: Candidates = None,
    side: SideName = "src",
    out: Out = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """List the destinations that sources are most likely to meet at a time, best first.

    A source without events before that time gets the most popular destinations, marked as a cold start.
    """
    if node is not None and nodes is not None:
        raise ConfigError("Specify --node for one node or --nodes for many, not both.")
    if node is None and out is None:
        raise ConfigError("Specify --node for one node, or --out FILE for the lists of many.")
    outputs.check_file("--out", out, *outputs.TABLES, inputs=[nodes, candidates])
    on = parse_side(side) or "src"
    opened = open_run(run, device)
    time = parse_time("--at", at, opened.stream)
    among = None if candidates is None else read_ids("--candidates", candidates, opened.stream)
    many = [node] if node is not None else _nodes_to_serve(opened.stream, nodes, on)
    with console.status("scoring every candidate"):
        lists = opened.recommend(many, time, k, exclude_seen=exclude_seen, candidates=among, side=on)
    _note_cold_starts(lists, at, opened.stream.ids, on)
    if out is not None:
        _write(opened, [one for one in lists if one], out)
    elif json:
        _print_json(lists[0], opened.stream)
    elif lists[0]:
        _print_list(lists[0])
        note_time(opened.stream, lists[0].at, lists[0].last_event)


def _nodes_to_serve(stream: EventStream, given: str | None, side: Side) -> list[int | str]:
    if given is not None:
        return read_ids("--nodes", given, stream)
    import numpy as np

    found: list[int | str] = stream.ids.labels[
        np.unique(stream.src if side == "src" else stream.dst)
    ].tolist()
    return found


def _note_cold_starts(lists: list[RecommendationList], at: str | None, ids: NodeIds, side: Side) -> None:
    when = "" if at is None else f"--at {at}: "
    if lists[0].last_event is None:
        console.notice(f"{when}nothing to recommend, there is no event before this time")
        return
    if empty := sum(not one for one in lists):
        console.notice(
            f"{when}nothing to recommend to {empty:,} of {len(lists):,} nodes: no candidate is left"
        )
    cold = [one.node for one in lists if one.cold_start]
    if cold:
        shown = ", ".join(map(str, cold[:3])) + (", ..." if len(cold) > 3 else "")
        count = f" ({len(cold):,} of {len(lists):,} nodes)" if len(lists) > 1 else ""
        console.notice(
            f"{when}cold start for {shown}{count}, without earlier events: the most popular candidates, "
            f"scored by their number of events.{_suggestion(cold, ids, side)}"
        )


def _suggestion(cold: list[int | str], ids: NodeIds, side: Side) -> str:
    """Ask after an id that may be meant instead of an unknown one, or show what ids look like."""
    unknown = [node for node in cold if not ids.has(node)]
    if not unknown:
        return ""
    suggested = next(filter(None, (ids.suggestion(node, side) for node in unknown)), "")
    return suggested or f" The run does not know {unknown[0]!r}; {ids.examples(side)}."


def _write(run: Run, lists: list[RecommendationList], path: Path) -> None:
    from contig.runs.answers import list_table, mean_overlap

    with outputs.writing(path, counted(len(lists), "list")):
        outputs.write_table(path, outputs.with_times_of(run, list_table(lists), path))
    if len(lists) > 1:
        shortest, longest = min(map(len, lists)), max(map(len, lists))
        lengths = f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
        console.notice(
            f"on average two lists share {mean_overlap(lists):.2f} of their {lengths} nodes; lists that "
            "share few are more personal"
        )


def _print_json(found: RecommendationList, stream: EventStream) -> None:
    about = {"node": found.node, **times_json(stream, at=found.at, last_event=found.last_event)}
    rows = [one._asdict() for one in found]
    console.print_json(
        {**about, "cold_start": found.cold_start, "score_kind": found.score_kind, "recommendations": rows}
    )


def _print_list(found: RecommendationList) -> None:
    headings = {"logit": "probability", "heuristic": "score", "events": "events"}
    table = console.new_table("rank", "node", headings[found.score_kind])
    for rank, one in enumerate(found, 1):
        value = one.score if one.probability is None else one.probability
        shown = f"{value:,.0f}" if found.cold_start else f"{value:.3f}"
        table.add_row(str(rank), console.plain(one.node), shown)
    console.out().print(table)
