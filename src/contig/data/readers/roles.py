"""The role of each column: named by the caller, or recognized by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from shlex import quote

import pyarrow as pa

from contig.data.date_formats import fitting_formats
from contig.data.numbers import is_number
from contig.data.read_options import ColumnName, ReadOptions
from contig.data.readers.names import listed, plain_name
from contig.data.readers.opened import OpenedTable, Roles
from contig.errors import DataError, close_names

NODE_NAMES = {
    "src": ("src", "source", "user", "u", "from", "sender"),
    "dst": ("dst", "destination", "target", "item", "i", "to", "receiver", "recipient"),
}
PLURALS = {"src": "sources", "dst": "destinations"}  # as TGB names its arrays
ALIASES = {
    **{
        role: (*(n + end for n in names for end in ("", "_id", "id")), PLURALS[role])
        for role, names in NODE_NAMES.items()
    },
    "t": (
        *("t", "ts", "time", "timestamp", "datetime", "date", "unixtime", "unix_time", "event_time"),
        "timestamps",
    ),
    "label": ("label", "state_label", "y"),
}
REQUIRED = ("src", "dst", "t")
HINTS = {  # parts of names by which a column is suggested, but not simply used
    "src": ("account", "customer", "client", "member", "buyer", "student", "who"),
    "dst": ("merchant", "product", "shop", "article", "page", "course", "what"),
    "t": ("when", "day", "_at", "created", "booked"),
}
ROLE_WORDS = {
    "src": "sources",
    "dst": "destinations",
    "t": "times",
    "label": "labels",
    "features": "edge features",
}
FEATURE_LISTS = ("features", "edge_features", "edge_feat", "msg")
NUMBERED_FEATURE = re.compile(r"(f|feat|feature|edge_feat|edge_feature)_?\d+")


def find_roles(table: OpenedTable, reading: ReadOptions) -> Roles:
    """Return the columns the caller named, and for the other roles those recognized by name.

    A column named as a feature is recognized as src, dst or t only if no other column is. Features that the
    caller named are encoded later; recognized ones, which are vectors, are taken as they are unless
    ``preprocess`` is set.
    """
    features = reading.feature_columns
    _reject_unknown(table, reading)
    found = {role: _named(table, role, given) for role, given in reading.columns.items() if given is not None}
    claimed = None if features is None else tuple(_named(table, "features", given) for given in features)
    for role in ALIASES:
        if role not in found:
            position = _recognized(table, role, set(found.values()), set(claimed or ()))
            found |= {} if position is None else {role: position}
    if missing := [role for role in REQUIRED if role not in found]:
        raise _no_columns(table, missing, set(found.values()))
    s, d, t = (found[role] for role in ("src", "dst", "t"))
    if len({s, d, t}) < 3:
        raise DataError(
            f"{table.origin}: src, dst and t must be three columns, not "
            f"{table.names[s]!r}, {table.names[d]!r} and {table.names[t]!r}."
        )
    own = _recognized_features(table, set(found.values())) if claimed is None else claimed
    raw = claimed is not None
    if not own and reading.features is True:
        taken = set(found.values())
        own, raw = tuple(i for i, name in enumerate(table.names) if i not in taken and name), True
    raw = raw if reading.preprocess is None else reading.preprocess
    vectors = any(i in table.list_columns for i in own)
    return Roles(s, d, t, found.get("label"), own, raw=raw and bool(own) and not vectors)


def check_features(table: OpenedTable, roles: Roles) -> None:
    """Reject features that are named twice, and the label, which would give away what is to be predicted."""
    for i, position in enumerate(roles.features):
        column = f"column {table.names[position]!r}"
        if position in roles.features[:i]:
            raise DataError(f"{table.origin}: features= (--features) names {column} twice; name it once.")
        if position == roles.label:
            raise DataError(
                f"{table.origin}: {column} holds the labels and cannot be a feature, too: it would give away "
                "what is to be predicted. Leave it out of features= (--features)."
            )


def users_and_items(table: OpenedTable, roles: Roles) -> bool | None:
    """Return True if the columns are called user... and item..., which makes a stream bipartite."""
    src, dst = (plain_name(table.names[i]) for i in (roles.src, roles.dst))
    return True if src.startswith("user") and dst.startswith("item") else None


def _reject_unknown(table: OpenedTable, reading: ReadOptions) -> None:
    """Reject the columns that the caller named and that do not exist, all of them at once."""
    given = [(role, name) for role, name in reading.columns.items() if name is not None]
    given += [("features", name) for name in reading.feature_columns or ()]
    wrong = [(role, name) for role, name in given if not _matches(table, name)]
    if not wrong:
        return
    problem = " and ".join(f"no column {name!r} for the {ROLE_WORDS[role]}" for role, name in wrong)
    taken = {plain_name(str(name)) for _, name in given}
    near = [
        close
        for role, name in wrong
        if isinstance(name, str)
        for close in close_names(name, [n for n in table.names if _is_free(n, role, taken)])
    ]
    hint = f" Did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else ""
    counted = ", counted from 0" if any(isinstance(name, int) for _, name in wrong) else ""
    mixed = any(isinstance(name, int) for _, name in given) and any(
        isinstance(name, str) for _, name in wrong
    )
    advice = (
        " A position means that the file has no header: use names for all columns or for none."
        if mixed
        else ""
    )
    if not advice and all(role == "features" for role, _ in wrong):
        them = "it" if len(wrong) == 1 else "them"
        advice = f" Add {them} (values may be missing), or name other columns with features= (--features)."
    there = f"There are {listed(table.names)}{counted}."
    raise DataError(f"{table.origin}: there is {problem}.{hint} {there}{advice}")


def _is_free(column: str, role: str, taken: set[str]) -> bool:
    """Return whether a column may be meant for a role; one that is known by its name is not a feature."""
    name = plain_name(column)
    known = role == "features" and any(name in names for names in ALIASES.values())
    return name not in taken and not known


def _matches(table: OpenedTable, given: ColumnName) -> list[int]:
    """Return the positions of the columns that the caller may mean."""
    names = table.names
    if isinstance(given, int):
        return [given] if 0 <= given < len(names) else []
    same = [i for i, name in enumerate(names) if name == given]
    return same or [i for i, name in enumerate(names) if plain_name(name) == plain_name(given)]


def _named(table: OpenedTable, role: str, given: ColumnName) -> int:
    """Return the position of the column the caller named, which exists."""
    position, *others = _matches(table, given)
    if others:
        raise DataError(
            f"{table.origin}: {1 + len(others)} columns are called {given!r}, which was given for the "
            f"{ROLE_WORDS[role]}; rename all but one."
        )
    return position


def _recognized(table: OpenedTable, role: str, taken: set[int], claimed: set[int]) -> int | None:
    """Return the column recognized for ``role``, if there is one."""
    position = _by_alias(table, role, taken | claimed)
    if position is not None or role not in REQUIRED:
        return position
    return _by_alias(table, role, taken)


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


def _no_columns(table: OpenedTable, missing: Sequence[str], taken: set[int]) -> DataError:
    """Return the error for a table in which some roles have no column: it names all of them."""
    if len(table.names) < len(REQUIRED):
        return DataError(
            f"{table.origin}: events need three columns, a source, a destination and a time; found only "
            f"{' and '.join(map(repr, table.names))}. Add the others, or check the file's separator."
        )
    if not table.has_header or any(is_number(name) or _is_date(name) for name in table.names):
        src, dst, t = _likely_positions(table.names)
        return DataError(
            f"{table.origin}: no column for {' and '.join(map(repr, missing))}; the file seems to have no "
            f"header, and its first event has {len(table.names)} fields. Give the columns by position: "
            f"src={src}, dst={dst}, t={t}, or on the command line --src {src} --dst {dst} --time {t}."
        )
    known = {role: NODE_NAMES.get(role, ALIASES[role]) for role in missing}
    problem = " or ".join(f"the {ROLE_WORDS[role]} ({', '.join(known[role][:4])}, ...)" for role in missing)
    guesses = _guesses(table, known, taken)
    keywords = ", ".join(f"{role}={guess!r}" for role, guess in guesses.items())
    flags = " ".join(f"{FLAGS.get(role, f'--{role}')} {quote(guess)}" for role, guess in guesses.items())
    return DataError(
        f"{table.origin}: no column is recognized for {problem}; there are {listed(table.names)}. Name them, "
        f"for instance {keywords}, or on the command line {flags}."
    )


def _is_date(name: str) -> bool:
    return bool(fitting_formats(pa.chunked_array([[name.strip()]]))) or _is_iso_date(name.strip())


def _is_iso_date(name: str) -> bool:
    try:
        datetime.fromisoformat(name)
    except ValueError:
        return False
    return True


def _likely_positions(first: Sequence[str]) -> tuple[int, int, int]:
    """Return where source, destination and time may be in the first event of a file without a header."""
    columns = range(len(first))
    dates = [i for i in columns if _is_date(first[i]) and not is_number(first[i])]
    numbers = [i for i in columns if is_number(first[i])]
    t = next(iter(dates or ([] if 2 in numbers else numbers)), 2)
    src, dst = [i for i in columns if i != t][:2]
    return src, dst, t


def _guesses(table: OpenedTable, known: Mapping[str, Sequence[str]], taken: set[int]) -> dict[str, str]:
    """Return a column for each role that might be meant, by its name or simply the next one."""
    free = [name for i, name in enumerate(table.names) if i not in taken] or list(table.names)
    guesses: dict[str, str] = {}
    for role, names in known.items():
        parts = (*(name for name in names if len(name) > 2), *HINTS[role])
        near = [name for name in free if any(part in plain_name(name) for part in parts)]
        guesses |= {role: near[0]} if near and near[0] not in guesses.values() else {}
    left = [name for name in free if name not in guesses.values()] or free
    for role in known:
        if role not in guesses:
            guesses[role] = left[0]
            left = left[1:] or free
    return {role: guesses[role] for role in known}


def has_column(table: OpenedTable, name: ColumnName | None) -> bool:
    """Return whether a table has a column that the caller may mean by this name."""
    return name is not None and bool(_matches(table, name))


def _recognized_features(table: OpenedTable, taken: set[int]) -> tuple[int, ...]:
    plain = {i: plain_name(name) for i, name in enumerate(table.names) if i not in taken}
    for wanted in FEATURE_LISTS:
        found = [i for i, name in plain.items() if name == wanted and i in table.list_columns]
        if found:
            return (found[0],)
    return tuple(i for i, name in plain.items() if NUMBERED_FEATURE.fullmatch(name))
