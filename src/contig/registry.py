"""Plugins by name: models, tasks, readers and datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from contig.errors import ConfigError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Objects by name, loaded on first use.

    A name comes from three places: the package itself (``builtin``, as ``"module:attribute"``), a call of
    ``register``, or an installed package's entry point in ``group``. Any other object can be named by its
    path, ``"package.module:attribute"``. ``check`` raises a ``ContigError`` for an object of another kind.
    ``function`` completes the name of ``contig.register_...`` where that is not the kind.
    """

    def __init__(
        self,
        kind: str,
        builtin: dict[str, str],
        group: str,
        check: Callable[[str, Any], None] = lambda name, found: None,
        function: str = "",
    ) -> None:
        self.kind, self.group, self.function = kind, group, function
        self._builtin, self._check = builtin, check
        self._registered: dict[str, T] = {}

    def register(self, name: str, item: T, *, replace: bool = False) -> None:
        """Add ``item`` under ``name``; a name that is taken needs ``replace=True``.

        Running the same definition again, as notebooks do, replaces it anyway.
        """
        if not isinstance(name, str) or ":" in name or not name.strip():
            raise ConfigError(f"{name!r} cannot name a {self.kind}; use a word without a colon.")
        if not replace and name in self and not _is_redefined(self._registered.get(name), item):
            raise ConfigError(
                f"A {self.kind} named {name!r} already exists; choose another name or pass replace=True."
            )
        self._check(name, item)
        self._registered[name] = item

    def __contains__(self, name: object) -> bool:
        return name in self._registered or name in self._builtin or name in self._plugins()

    def __iter__(self) -> Iterator[str]:
        """Yield every name: built-in ones first, in their own order."""
        return iter(dict.fromkeys([*self._builtin, *self._registered, *self._plugins()]))

    def __getitem__(self, name: str) -> T:
        """Return the object of that name, or at that ``package.module:attribute``."""
        if name in self._registered:
            return self._registered[name]
        if name in self._builtin:
            return self._load(name, self._builtin[name])
        if name in (plugins := self._plugins()):
            return self._load(name, plugins[name].value)
        if ":" in name:
            return self._load(name, name)
        raise ConfigError(
            f"{unknown(self.kind, name, self)} For your own, use package.module:attribute or call "
            f"contig.register_{self.function or self.kind} first."
        )

    def _plugins(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def _load(self, name: str, path: str) -> T:
        module, _, attribute = path.partition(":")
        try:
            found: T = getattr(import_module(module), attribute)
        except Exception as error:  # whatever a module does when it is imported
            known = isinstance(error, ImportError | AttributeError | ValueError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            where = "" if path == name else f" from {path}"
            raise ConfigError(
                f"The {self.kind} {name!r} cannot be loaded{where} ({reason}). {_cure(error)}"
            ) from error
        if path not in self._builtin.values():
            self._check(name, found)
        return found


def _cure(error: Exception) -> str:
    """Say what to do about a plugin that cannot be imported, or that fails while it is."""
    if isinstance(error, ModuleNotFoundError):
        return "Start in the folder of the module, add that folder to PYTHONPATH, or install the package."
    if isinstance(error, ImportError | AttributeError | ValueError):
        return "Expected package.module:attribute of an importable module."
    return "Fix the module, or uninstall the package that offers it."


def _is_redefined(old: Any, new: Any) -> bool:
    """Return whether two objects are the same one, or a class or function that was defined twice."""
    if old is new:
        return True
    name = getattr(new, "__qualname__", "<lambda>")
    return "<lambda>" not in name and (_module(old), getattr(old, "__qualname__", None)) == (
        _module(new),
        name,
    )


def _module(item: Any) -> Any:
    return getattr(item, "__module__", None)
