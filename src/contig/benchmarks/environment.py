"""The machine and the packages that a benchmark runs on."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from contig import __version__
from contig.errors import ConfigError

PACKAGES = ("torch", "numpy", "numba", "triton", "pandas", "pyarrow", "torch-geometric", "torchdiffeq")


class MissingPackage(ConfigError):
    """A package to compare with is not installed."""


def require(package: str) -> None:
    """Raise ``MissingPackage`` unless the package of a peer is installed."""
    if find_spec(package) is None:
        raise MissingPackage(f"needs {package}; install it with: pip install 'contig[bench]'")


def processor() -> str:
    """Describe the CPU."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def load() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def versions() -> dict[str, str]:
    """Return the versions of contig and of the installed packages that matter for speed."""
    installed = {"contig": __version__}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
