"""The role of each column: named by the caller, or recognized by its name."""

from __future__ import annotations

import re

from contig.data.read_options import ColumnName, ReadOptions
from contig.data.readers.names import listed, plain_name
from contig.data.readers.opened import OpenedTable, Roles
from contig.data.validation import is_number
from contig.errors import DataError, unknown

NODE_NAMES = {
    "src": ("src", "source", "user", "u", "from", "sender"),
    "dst": ("dst", "destination", "target", "item", "i", "to", "receiver", "recipient"),
}
ALIASES = {
    **{
        role: tuple(n + end for n in names for end in ("", "_id", "id")) for role, names in NODE_NAMES.items()
    },
    "t": ("t", "ts", "time", "timestamp", "datetime", "date", "unixtime", "unix_time", "event_time"),
    "label": ("label", "state_label", "y"),
}
FEATURE_LISTS = ("features", "edge_features", "msg")
NUMBERED_FEATURE = re.compile(r"(f|feat|feature|edge_feat|edge_feature)_?\d+")


def find_roles(table: OpenedTable, reading: ReadOptions) -> Roles:
    """Return the columns the caller named, and for the other roles those recognized by name.

    A column named as a feature is recognized as src, dst or t only if no other column is.
    """
    features = reading.feature_columns
    found = {role: _named(table, role, given) for role, given in reading.columns.items() if given is not None}
    claimed = None if features is None else tuple(_named(table, "features", given) for given in features)
    for role in ALIASES:
        if role not in found:
            position = _recognized(table, role, set(found.values()), set(claimed or ()))
            found |= {} if position is None else {role: position}
    s, d, t = (found[role] for role in ("src", "dst", "t"))
    if len({s, d, t}) < 3:
        raise DataError(
            f"{table.origin}: src, dst and t must be three columns, not "
            f"{table.names[s]!r}, {table.names[d]!r} and {table.names[t]!r}."
        )
    own = _recognized_features(table, set(found.values())) if claimed is None else claimed
    return Roles(s, d, t, found.get("label"), own)


def users_and_items(table: OpenedTable, roles: Roles) -> bool | None:
    """Return True if the columns are called user... and item..., which makes a stream bipartite."""
    src, dst = (plain_name(table.names[i]) for i in (roles.src, roles.dst))
    return True if src.startswith("user") and dst.startswith("item") else None


def _named(table: OpenedTable, role: str, given: ColumnName) -> int:
    """Return the position of the column the caller named."""
    names = table.names
    if isinstance(given, int):
        if 0 <= given < len(names):
            return given
        raise DataError(
            f"{table.origin}: {role}={given} is not a column; "
            f"there are {len(names)}, counted from 0: {listed(names)}."
        )
    same = [i for i, name in enumerate(names) if name == given]
    same = same or [i for i, name in enumerate(names) if plain_name(name) == plain_name(given)]
    if len(same) == 1:
        return same[0]
    if same:
        raise DataError(f"{table.origin}: {role}={given!r} names {len(same)} columns; rename all but one.")
    raise DataError(f"{table.origin}, {role}={given!r}: {unknown('column', given, names)}")


def _recognized(table: OpenedTable, role: str, taken: set[int], claimed: set[int]) -> int | None:
    """Return the column recognized for ``role``; None if there is none and the role is optional."""
    position = _by_alias(table, role, taken | claimed)
    if position is not None or role == "label":
        return position
    position = _by_alias(table, role, taken)
    if position is None:
        raise _no_column(table, role)
    return position


def _by_alias(table: OpenedTable, role: str, taken: set[int]) -> int | None:
    plain = [None if i in taken else plain_name(name) for i, name in enumerate(table.names)]
    for alias in ALIASES[role]:
        if plain.count(alias) > 1:
            raise DataError(
                f"{table.origin}: {plain.count(alias)} columns are called {alias!r}; "
                f"rename all but one, or name another column with {role}=."
            )
        if alias in plain:
            return plain.index(alias)
    return None


FLAGS = {"t": "--time"}  # the command line options that are not named like the role


def _no_column(table: OpenedTable, role: str) -> DataError:
    if not table.has_header or all(is_number(name) for name in table.names):
        return DataError(
            f"{table.origin}: no column for {role!r}; the file seems to have no header, and its first event "
            f"has {len(table.names)} fields. Give the columns by position: src=0, dst=1, t=2, or on the "
            "command line --src 0 --dst 1 --time 2."
        )
    known = NODE_NAMES.get(role, ALIASES[role])
    near = [name for name in table.names if any(len(k) > 2 and k in plain_name(name) for k in known)]
    guess = (near or table.names)[0]
    return DataError(
        f"{table.origin}: no column is called {role!r} or similar ({', '.join(known)}); there are "
        f"{listed(table.names)}. Name the column, for instance {role}={guess!r}, or on the command line "
        f"{FLAGS.get(role, f'--{role}')} {guess}."
    )


def _recognized_features(table: OpenedTable, taken: set[int]) -> tuple[int, ...]:
    plain = {i: plain_name(name) for i, name in enumerate(table.names) if i not in taken}
    for wanted in FEATURE_LISTS:
        found = [i for i, name in plain.items() if name == wanted and i in table.list_columns]
        if found:
            return (found[0],)
    return tuple(i for i, name in plain.items() if NUMBERED_FEATURE.fullmatch(name))
