"""History: the last ``k`` events of any node strictly before any time.

Every node owns a segment of one pool of entries ``(event, neighbour, time)`` in stream order.
Since the stream is in time order, one bisection inside the segment answers a query, ties come out
exact, and the last ``k`` are consecutive. A segment that is full moves to the end of the pool with
twice the room, which makes appending amortised O(1) per event.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from contig.data.columns import Array
from contig.data.events import EventStream
from contig.errors import ConfigError, DataError, unknown
from contig.kernels.dispatch import backend
from contig.kernels.pinned_memory import pinned

Choice = Literal["recent", "uniform"]


class Neighbors(NamedTuple):
    """Past events of each queried node, the most recent first, each ``[queries, k]``.

    Where ``mask`` is false there was no such event: ``node`` is then the queried node itself,
    ``event`` 0 and ``time`` the query's own time, so that padding is harmless wherever it is used.
    """

    node: Tensor  # int64
    event: Tensor  # int64, position in the stream
    time: Tensor  # int64 or float64
    mask: Tensor  # bool


class EventColumns:
    """The events themselves by number, growing at the end: ``src``, ``dst``, ``t``, ``features``."""

    def __init__(self, src: Tensor, dst: Tensor, t: Tensor, features: Tensor | None) -> None:
        self.columns: dict[str, Tensor] = {"src": src, "dst": dst, "t": t}
        if features is not None:
            self.columns["features"] = features
        self.count = len(t)

    def __getitem__(self, name: str) -> Tensor:
        return self.columns[name][: self.count]

    def count_before(self, times: Tensor) -> Tensor:
        """How many of the events lie strictly before each time."""
        t = self["t"]
        return torch.searchsorted(t, _as_time_of(t, times).contiguous())

    def append(self, **rows: Tensor) -> None:
        added = len(rows["t"])
        for name, column in self.columns.items():
            if self.count + added > len(column):
                room = column.new_empty((max(2 * len(column), self.count + added), *column.shape[1:]))
                room[: self.count] = column[: self.count]
                self.columns[name] = column = room
            column[self.count : self.count + added] = rows[name]
        self.count += added


@dataclass(eq=False)
class History:
    """Who met whom so far, ready to be asked about any node at any time.

    ``before`` is the one question; ``append`` adds events in stream order; ``only`` gives the
    history of some of the events over the same columns (a training-only view, say).
    """

    events: EventColumns
    entry_event: Tensor  # [pool] int32 or int64
    entry_node: Tensor  # [pool] int32: the other end of that event
    entry_time: Tensor  # [pool] its time; reading it by event number would miss the cache k times
    start: Tensor  # [nodes or more] int64: where the node's segment begins
    length: Tensor  # [nodes or more] int64: entries in it
    room: Tensor  # [nodes or more] int64: entries it can hold before it must move
    num_nodes: int
    pool_used: int
    longest: int
    on_host: bool = False  # in the host's memory, though a GPU works on it

    # -- making one ------------------------------------------------------------------------------

    @classmethod
    def from_stream(cls, stream: EventStream, device: str | torch.device = "cpu") -> History:
        """The history of a whole stream. Later times see more of it; nothing must be rebuilt."""

        def column(array: Array) -> Tensor:
            # a frozen numpy view would make torch warn that it cannot be written to
            return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)

        features = None if stream.edge_features is None else column(stream.edge_features)
        events = EventColumns(column(stream.src), column(stream.dst), column(stream.t), features)
        return cls._index(events, torch.arange(len(stream), device=device), stream.num_nodes)

    @classmethod
    def empty(
        cls, num_nodes: int = 0, *, edge_width: int = 0, time_dtype: torch.dtype = torch.float64
    ) -> History:
        """A history of nothing yet, to be appended to."""
        ids = torch.empty(0, dtype=torch.int64)
        features = torch.empty(0, edge_width) if edge_width else None
        events = EventColumns(ids, ids.clone(), torch.empty(0, dtype=time_dtype), features)
        return cls._index(events, ids, num_nodes)

    @classmethod
    def _index(cls, events: EventColumns, numbers: Tensor, num_nodes: int) -> History:
        """Give every node a segment of just the room it needs, and fill them in stream order."""
        src, dst, t = (events[name][numbers] for name in ("src", "dst", "t"))
        room = torch.bincount(src, minlength=num_nodes) + torch.bincount(dst[src != dst], minlength=num_nodes)
        entries = int(room.sum())
        history = cls(
            events=events,
            entry_event=numbers.new_empty(entries, dtype=torch.int32 if events.count < _WIDE else None),
            entry_node=numbers.new_empty(entries, dtype=torch.int32),
            entry_time=t.new_empty(entries),
            start=torch.cumsum(room, 0) - room,
            length=torch.zeros_like(room),
            room=room,
            num_nodes=num_nodes,
            pool_used=entries,
            longest=0,
        )
        history._place(numbers, src, dst, t)
        return history

    def only(self, numbers: Array) -> History:
        """The history made of these events alone (ascending numbers), over the same columns."""
        chosen = torch.from_numpy(np.array(numbers, dtype=np.int64)).to(self.device)
        inside = (chosen >= 0) & (chosen < self.num_events)
        if np.asarray(numbers).dtype == bool or not inside.all() or not (chosen.diff() > 0).all():
            raise DataError(
                f"only: numbers must be ascending event positions below {self.num_events:,}, each once; "
                "make them of a mask with np.flatnonzero."
            )
        return self._index(self.events, chosen, self.num_nodes)

    def pinned(self, device: torch.device, events: EventColumns | None = None) -> History:
        """This history in the host's memory for a GPU to read, over ``events`` where those are there already.

        It can be asked, but not appended to.
        """
        names = (*_ENTRIES, *_SEGMENTS)
        arrays: dict[str, Any] = {name: pinned(getattr(self, name), device) for name in names}
        if events is None:
            columns = {name: pinned(self.events[name], device) for name in self.events.columns}
            events = EventColumns(columns["src"], columns["dst"], columns["t"], columns.get("features"))
        return replace(self, events=events, on_host=True, **arrays)

    # -- asking it -------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return self.start.device

    @property
    def num_events(self) -> int:
        return self.events.count

    def numbers(self) -> Tensor:
        """The positions of the events in it, ascending; ``only`` leaves some of the columns' out."""
        if not len(self.start):
            return self.start.new_empty(0)
        held: Tensor = torch.unique(self.entry_event[_runs(self.start, self.length)])
        return held.long()

    def nbytes(self) -> int:
        """Bytes the index holds on top of the event columns."""
        parts = (getattr(self, name) for name in (*_ENTRIES, *_SEGMENTS))
        return sum(p.numel() * p.element_size() for p in parts)

    def before(
        self,
        nodes: Tensor,
        times: Tensor,
        k: int,
        how: Choice = "recent",
        generator: torch.Generator | None = None,
    ) -> Neighbors:
        """Up to ``k`` events of each node strictly before its time, most recent first.

        ``recent`` takes the last ``k``; ``uniform`` draws ``k`` distinct ones of all earlier events.
        A node the history has not met yet simply has no events.
        """
        if how not in ("recent", "uniform"):
            raise ConfigError(unknown("choice of neighbours", how, ("recent", "uniform")))
        if k < 1:
            raise ConfigError(f"k={k}: ask for at least one neighbour.")
        _check_queries(nodes, times)
        compiled = backend(self.device) if how == "recent" else "torch"
        if compiled == "numba":
            return self._before_compiled(nodes, times, k)
        if compiled == "triton":
            return self._before_in_a_kernel(nodes, times, k)
        return self._before(nodes, times, k, how, generator)

    def count_before(self, nodes: Tensor, times: Tensor) -> Tensor:
        """How many events each node has strictly before its time."""
        _check_queries(nodes, times)
        return self._bisect(nodes, _as_time_of(self.entry_time, times))[1]

    def _before_compiled(self, nodes: Tensor, times: Tensor, k: int) -> Neighbors:
        from contig.kernels.cpu import lookup as history_loops  # here, since compiling takes numba

        asked = _as_time_of(self.entry_time, times).contiguous().numpy()
        shape = (len(nodes), k)
        # numpy asks for huge pages where torch does not: large answers take far fewer page faults
        out = tuple(np.empty(shape, dtype) for dtype in (np.int64, np.int64, asked.dtype, np.bool_))
        queries = (nodes.long().contiguous().numpy(), asked)
        history_loops.lookup(self._index_arrays[:5], queries, out, torch.get_num_threads())
        return Neighbors(*map(torch.from_numpy, out))

    def _before_in_a_kernel(self, nodes: Tensor, times: Tensor, k: int) -> Neighbors:
        from contig.kernels.gpu.lookup import lookup  # here, since it takes Triton

        asked = _as_time_of(self.entry_time, times)
        index = self.start, self.length, self.entry_event, self.entry_node, self.entry_time
        return Neighbors(*lookup(nodes.long(), asked, *index, k, self.longest.bit_length()))

    def _before(
        self, nodes: Tensor, times: Tensor, k: int, how: Choice, generator: torch.Generator | None
    ) -> Neighbors:
        asked = _as_time_of(self.entry_time, times)
        start, count = self._bisect(nodes, asked)
        back = torch.arange(1, k + 1, device=nodes.device)
        if how == "uniform":
            back = _distinct_draws(count, k, generator)
        mask = back <= count.unsqueeze(1)  # [queries, k]
        at = torch.where(mask, (start + count).unsqueeze(1) - back, 0)
        return Neighbors(
            node=torch.where(mask, _at(self.entry_node, at), nodes.unsqueeze(1)),
            event=torch.where(mask, _at(self.entry_event, at), 0),
            time=torch.where(mask, _at(self.entry_time, at), asked.unsqueeze(1)),
            mask=mask,
        )

    def _bisect(self, nodes: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
        """Each node's segment start, and how many of its entries lie strictly before its time."""
        known = (nodes >= 0) & (nodes < len(self.start))
        safe = torch.where(known, nodes, 0)
        start = _at(self.start, safe)
        left = torch.where(known, _at(self.length, safe), 0)
        low = torch.zeros_like(left)
        for _ in range(self.longest.bit_length()):
            half = (left + 1) >> 1
            probe = torch.where(half > 0, start + low + half - 1, 0)
            low = low + half * (_at(self.entry_time, probe) < times)
            left = left - half
        return start, low

    # -- adding to it ----------------------------------------------------------------------------

    def append(self, src: Tensor, dst: Tensor, t: Tensor, features: Tensor | None = None) -> None:
        """Add events in stream order, in amortised O(1) each; unknown nodes are taken in.

        What does not fit (times that go back, say) is refused whole and leaves the history as it was.
        """
        rows = self._checked_rows(src, dst, t, features)
        if not len(t):
            return
        if self.num_events + len(t) >= _WIDE:
            self.entry_event = self.entry_event.long()
            self.__dict__.pop("_index_arrays", None)
        self.grow(_top(src, dst) + 1)
        numbers = torch.arange(self.num_events, self.num_events + len(t), device=self.device)
        self._place(numbers, src, dst, rows["t"])
        self.events.append(**rows)

    def grow(self, num_nodes: int) -> None:
        """Make room for nodes up to ``num_nodes``; they start without history."""
        if num_nodes > len(self.start):
            self._lengthen(_SEGMENTS, num_nodes, len(self.start))
        self.num_nodes = max(self.num_nodes, num_nodes)

    def _place(self, numbers: Tensor, src: Tensor, dst: Tensor, t: Tensor) -> None:
        """Put both ends of every event behind what their nodes hold already."""
        if not len(numbers):
            return
        if backend(self.device) == "numba":
            self._place_compiled(numbers, src, dst, t)
        else:
            self._place_sorted(numbers, src, dst, t)
        self.longest = max(self.longest, _top(self.length[src], self.length[dst]))

    def _place_compiled(self, numbers: Tensor, src: Tensor, dst: Tensor, t: Tensor) -> None:
        from contig.kernels.cpu import lookup as history_loops  # here, since compiling takes numba

        rows = tuple(x.contiguous().numpy() for x in (numbers, src.long(), dst.long(), t))
        done = 0
        while done < len(numbers):
            done, self.pool_used, wanted = history_loops.place(
                *self._index_arrays, *rows, done, self.pool_used
            )
            self._enlarge_pool(wanted)

    def _place_sorted(self, numbers: Tensor, src: Tensor, dst: Tensor, t: Tensor) -> None:
        owner, other, row = _both_ends(src, dst)
        owners, added = torch.unique_consecutive(owner, return_counts=True)
        self._make_room(owners, added)
        at = _runs(self.start[owners] + self.length[owners], added)
        self.entry_event[at] = numbers[row].to(self.entry_event.dtype)
        self.entry_node[at] = other
        self.entry_time[at] = t[row]
        self.length[owners] += added

    def _make_room(self, owners: Tensor, added: Tensor) -> None:
        """Move every segment that would overflow to the end of the pool, with twice the room."""
        need = self.length[owners] + added
        full = need > self.room[owners]
        movers, room = owners[full], 2 * need[full]
        if not len(movers):
            return
        offset = torch.cumsum(room, 0)
        target = self.pool_used + offset - room
        pool = self.pool_used + int(offset[-1])
        held = self.length[movers]
        source, into = _runs(self.start[movers], held), _runs(target, held)
        self._enlarge_pool(pool)
        for name in _ENTRIES:
            entries = getattr(self, name)
            entries[into] = entries[source]
        self.start[movers], self.room[movers] = target, room
        self.pool_used = pool

    def _enlarge_pool(self, size: int) -> None:
        if size > len(self.entry_event):
            self._lengthen(_ENTRIES, size, self.pool_used)

    def _lengthen(self, names: tuple[str, ...], size: int, used: int) -> None:
        """At least double these arrays, so that lengthening costs O(1) per place; zeros fill them up."""
        for name in names:
            old = getattr(self, name)
            new = old.new_zeros(max(size, 2 * len(old)))
            new[:used] = old[:used]
            setattr(self, name, new)
        self.__dict__.pop("_index_arrays", None)  # they look at the old memory

    @cached_property
    def _index_arrays(self) -> tuple[Array, ...]:
        """The index as numpy arrays over the same memory, as the compiled loops take it."""
        return tuple(getattr(self, name).numpy() for name in (*_ENTRIES, *_SEGMENTS))

    def __getstate__(self) -> dict[str, Any]:
        # a copy's numpy arrays would not share memory with its tensors any more
        return {name: value for name, value in self.__dict__.items() if name != "_index_arrays"}

    def _checked_rows(
        self, src: Tensor, dst: Tensor, t: Tensor, features: Tensor | None
    ) -> dict[str, Tensor]:
        """The rows as the columns take them, once nothing is wrong with any of them."""
        if self.on_host:
            raise DataError("append: a history that lies in the host's memory for a GPU cannot grow.")
        for ids in (src, dst):
            _check_queries(ids, t)
        if len(t) and not (int(torch.minimum(src, dst).min()) >= 0 and _top(src, dst) <= _MOST_NODES):
            raise DataError(f"append: a node is not in 0..{_MOST_NODES:,}; number the nodes from 0.")
        if t.dtype.is_floating_point and not bool(torch.isfinite(t).all()):
            raise DataError("append: a time is not finite; every event needs a real time.")
        times = t.to(self.entry_time.dtype)
        if times.dtype != t.dtype and bool((times != t).any()):
            raise DataError(
                f"append: this history counts time in {times.dtype}, and a given time is not "
                "such a number; round it, or build the history with float times."
            )
        if bool((torch.cat([self.events["t"][-1:], times]).diff() < 0).any()):
            raise DataError(
                "append: times go back (an event is older than the one before it); "
                "events must come in stream order."
            )
        rows = {"src": src, "dst": dst, "t": times}
        if features is not None:
            rows["features"] = features
        self._check_features(features, len(t))
        return rows

    def _check_features(self, features: Tensor | None, count: int) -> None:
        column = self.events.columns.get("features")
        wanted = None if column is None else [count, column.shape[1]]
        given = None if features is None else list(features.shape)
        if given != wanted:
            raise DataError(f"append: expected features of shape {wanted}, got {given}.")
        if features is not None and not bool(torch.isfinite(features).all()):
            raise DataError("append: a feature is not finite; fill missing features (0 is usual).")

    # -- keeping it ------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the history to a folder of ``.npy`` files that ``load`` can map into memory.

        The folder holds the old history until the new one is complete: ``history.json`` names the
        files that count and is replaced last.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        head, fresh = folder / "history.json", folder / "history.json.part"
        edition = secrets.token_hex(4)
        arrays = {f"{name}.{edition}.npy": (name, array) for name, array in self._arrays().items()}
        meta = {name: getattr(self, name) for name in _SIZES}
        meta["files"] = {name: file for file, (name, _) in arrays.items()}
        outdated = _files_of(head)
        try:
            for file, (_, array) in arrays.items():
                np.save(folder / file, array.cpu().numpy())
            fresh.write_text(json.dumps(meta))
            fresh.replace(head)
        except BaseException:
            _remove(folder, [*arrays, fresh.name])
            raise
        _remove(folder, outdated)

    def _arrays(self) -> dict[str, Tensor]:
        """Everything worth keeping, by name, without the spare room at the ends."""
        return {
            **{f"events.{name}": self.events[name] for name in self.events.columns},
            **{name: getattr(self, name)[: self.pool_used] for name in _ENTRIES},
            **{name: getattr(self, name)[: self.num_nodes] for name in _SEGMENTS},
        }

    @classmethod
    def load(cls, folder: str | Path, *, mapped: bool = True) -> History:
        """Open a saved history; ``mapped`` leaves it on disk and reads what is asked for.

        Appending to a mapped history is safe: changes stay in memory and never reach the files.
        """
        folder = Path(folder)
        try:
            meta = json.loads((folder / "history.json").read_text())
            mode: Literal["c"] | None = "c" if mapped else None
            arrays = {
                name: torch.from_numpy(np.load(folder / file, mmap_mode=mode))
                for name, file in meta["files"].items()
            }
            columns = {name: arrays.pop(f"events.{name}") for name in ("src", "dst", "t")}
            events = EventColumns(**columns, features=arrays.pop("events.features", None))
            sizes: dict[str, Any] = {name: meta[name] for name in _SIZES}
            return cls(events=events, **(sizes | arrays))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{folder} does not hold a whole saved history ({error}); save it again."
            ) from error


_ENTRIES = ("entry_event", "entry_node", "entry_time")  # [pool]
_SEGMENTS = ("start", "length", "room")  # [nodes]
_SIZES = ("num_nodes", "pool_used", "longest")
_WIDE = 2**31  # event numbers from here on are kept in 64 bits
_MOST_NODES = 2**31 - 2  # entry_node is int32


def _files_of(head: Path) -> list[str]:
    """The files a saved history consists of; none where there is no such history."""
    try:
        return list(json.loads(head.read_text())["files"].values())
    except (OSError, ValueError, KeyError):
        return []


def _remove(folder: Path, files: Iterable[str]) -> None:
    for file in files:
        (folder / file).unlink(missing_ok=True)


def _both_ends(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The entries of some events by owning node, then in order: owner, other end, row of the event.

    An event of a node with itself is one entry.
    """
    ends = torch.stack([src, dst], dim=1).flatten().int()  # place 2i is row i's source, 2i + 1 its other end
    owner, place = torch.sort(ends, stable=True)
    row = place >> 1
    loops = src == dst
    if bool(loops.any()):
        once = (place & 1 == 0) | ~loops[row]
        owner, place, row = owner[once], place[once], row[once]
    return owner, ends[place ^ 1], row


def _top(a: Tensor, b: Tensor) -> int:
    return int(torch.maximum(a, b).max())


def _runs(first: Tensor, counts: Tensor) -> Tensor:
    """``first[i], first[i] + 1, ...``, ``counts[i]`` numbers each, one run after the other."""
    end = torch.cumsum(counts, 0)
    return (first - end + counts).repeat_interleave(counts) + torch.arange(int(end[-1]), device=end.device)


def _check_queries(nodes: Tensor, times: Tensor) -> None:
    if nodes.ndim != 1 or nodes.shape != times.shape:
        raise DataError(
            f"nodes {list(nodes.shape)} and times {list(times.shape)} must be two vectors of one length."
        )
    if nodes.dtype not in (torch.int64, torch.int32):
        raise DataError(f"nodes are {nodes.dtype}; give int64 node ids.")
    if times.dtype not in (torch.int64, torch.float64, torch.int32):
        raise DataError(f"times are {times.dtype}; give int64 or float64, float32 loses seconds.")


def _as_time_of(t: Tensor, times: Tensor) -> Tensor:
    """Query times in the type of the events' times, with the same events strictly before them."""
    if times.dtype.is_floating_point and not t.dtype.is_floating_point:
        # an integer lies strictly before x exactly when it lies strictly before ceil(x)
        return torch.ceil(times).clamp(-(2.0**62), 2.0**62).to(t.dtype)
    return times.to(t.dtype)


def _at(values: Tensor, index: Tensor) -> Tensor:
    """``values[index]`` as int64 or as the times' own type; zeros where there is nothing to index."""
    if not len(values):
        return torch.zeros_like(index)
    picked = values[index]
    return picked if picked.dtype.is_floating_point else picked.long()


def _distinct_draws(count: Tensor, k: int, generator: torch.Generator | None) -> Tensor:
    """For each count ``c``, ``k`` distinct numbers of ``1..c`` ascending (all of them where c <= k).

    Floyd's method: the j-th step draws from one more number than the step before and takes the
    new number itself when the draw is taken already. Where ``c < k`` the rest runs past ``c``.
    """
    size = (len(count), k)
    chosen = torch.zeros(size, dtype=torch.int64, device=count.device)
    luck = torch.rand(size, dtype=torch.float64, device=count.device, generator=generator)
    for j in range(k):
        top = count - k + 1 + j  # draw from 1..top
        draw = (luck[:, j] * top).long() + 1
        taken = (chosen[:, :j] == draw.unsqueeze(1)).any(dim=1)
        chosen[:, j] = torch.where(taken, top, draw)
    everything = torch.arange(1, k + 1, device=count.device)
    return torch.where((count > k).unsqueeze(1), chosen.sort(dim=1).values, everything)
