"""Typed options: dataclass fields with a help text and limits, settable as ``key=value``."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from types import UnionType
from typing import Any, TypeVar

from contig.errors import ConfigError, unknown

T = TypeVar("T")


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    above: float | None = None,
    below: float | None = None,
    file: bool = False,
) -> Any:
    """Define a dataclass field with a default, a help text and limits.

    Annotate it with int, float, bool, str, any of these ``| None``, a tuple of them, or a ``Literal`` of
    choices. ``low`` is an inclusive lower bound; ``above`` and ``below`` are exclusive bounds. ``file`` marks
    the path of a file that is read: stored results depend on its content.
    """
    limits = {"low": low, "above": above, "below": below}
    _check_limits("default", default, limits)
    return field(default=default, metadata={"help": help, "file": file, **limits})


def names_file(options: type[Any], name: str) -> bool:
    """Return whether an option is the path of a file that is read."""
    return any(one.name == name and one.metadata.get("file", False) for one in fields(options))


def set_options(config: T, settings: Mapping[str, Any]) -> T:
    """Return ``config`` with some options replaced; text is parsed as the option's type."""
    known: dict[str, Field[Any]] = {f.name: f for f in fields(config)}  # type: ignore[arg-type]
    types = typing.get_type_hints(type(config))
    values = {}
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(unknown("option", name, known))
        values[name] = _parse(name, value, types[name])
        _check_limits(name, values[name], known[name].metadata)
    changed: T = replace(config, **values)  # type: ignore[type-var]
    return changed


def check_flag(name: str, value: Any) -> None:
    """Raise ``ConfigError`` unless an argument is True, False or None."""
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{name}={value!r}: expected True, False or None.")


def check_count(name: str, value: Any) -> None:
    """Raise ``ConfigError`` unless an argument is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name}={value!r} must be a whole number of at least 0.")


def without_default(options: type[Any]) -> list[str]:
    """List the options of a dataclass that have no default."""
    return [f.name for f in fields(options) if f.default is MISSING and f.default_factory is MISSING]


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """Parse ``["lr=3e-4", "scope=all"]`` into a mapping; anything but ``key=value`` is rejected."""
    settings = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {pair!r} is not of the form key=value, such as --set lr=3e-4.")
        settings[key.strip()] = value.strip()
    return settings


@dataclass(frozen=True)
class OptionInfo:
    """An option, for people."""

    name: str
    type: str
    default: Any
    range: str
    help: str


def describe(config: Any) -> list[OptionInfo]:
    """Describe every option of a config; its values are the defaults."""
    types = typing.get_type_hints(type(config))
    return [
        OptionInfo(
            name=f.name,
            type=_type_name(types[f.name]),
            default=getattr(config, f.name),
            range=_range(f.metadata),
            help=f.metadata.get("help", ""),
        )
        for f in fields(config)
    ]


def as_dict(config: Any) -> dict[str, Any]:
    """Return the config as plain values, for JSON."""
    return dataclasses.asdict(config)


def _range(limits: Mapping[str, Any]) -> str:
    """Return the limits of an option for people: ``at least 0, below 1``."""
    low, above, below = (limits.get(kind) for kind in ("low", "above", "below"))
    parts = [] if low is None else [f"at least {low}"]
    parts += [] if above is None else [f"above {above}"]
    if below is not None:
        parts.append("finite" if below == math.inf else f"below {'2**63' if below == 2**63 else below}")
    return ", ".join(parts)


def _check_limits(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    if value is None:
        return
    low, above, below = (limits.get(kind) for kind in ("low", "above", "below"))
    if low is not None and not value >= low:
        raise ConfigError(f"{name}={value} must be at least {low}.")
    if above is not None and not value > above:
        raise ConfigError(f"{name}={value} must be above {above}.")
    if below is not None and not value < below:
        raise ConfigError(f"{name}={value} must be {'finite' if below == math.inf else f'below {below}'}.")


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return " | ".join(typing.get_args(kind))
    return getattr(kind, "__name__", str(kind)) if not isinstance(kind, UnionType) else str(kind)


def _parse(name: str, value: Any, kind: Any) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        if value not in inner:
            raise ConfigError(unknown(f"value for {name}", str(value), inner))
        return value
    if origin in (typing.Union, UnionType):
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return None
        kind = next(k for k in inner if k is not type(None))
        return _parse(name, value, kind)
    if origin is tuple:
        if not isinstance(value, str | list | tuple):
            raise ConfigError(f"{name}={value!r} is not a list; use comma-separated values.")
        parts = [p for p in map(str.strip, value.split(",")) if p] if isinstance(value, str) else list(value)
        return tuple(_parse(name, p, inner[0]) for p in parts)
    return _scalar(name, value, kind)


_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def _scalar(name: str, value: Any, kind: Any) -> Any:
    try:
        if kind is bool:
            return value if isinstance(value, bool) else _WORDS[str(value).lower()]
        if isinstance(value, bool) or (kind is str and not isinstance(value, str)):
            raise ValueError
        if kind is int and isinstance(value, float) and value != int(value):
            raise ValueError
        return kind(value)
    except (KeyError, ValueError, TypeError, OverflowError):
        raise ConfigError(
            f"{name}={value!r} is not {_kind_name(kind)}; use a value such as {_EXAMPLE[kind]}."
        ) from None


_EXAMPLE = {bool: "true or false", int: "10", float: "3e-4", str: "a word"}


def _kind_name(kind: Any) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[kind]
