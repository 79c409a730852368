"""Build the wheel and try it where nothing but its own dependencies can be imported.

A fresh environment would have to unpack torch, which takes minutes. This one links the distributions that
the wheel requires, and those that they require, from the environment that runs the script; what the extras
install is not there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(sysconfig.get_path("purelib"))

COMMANDS = (
    ("--version",),
    ("--help",),
    ("recipes",),
    ("recipes", "pair/collegemsg"),
    ("inspect", "synthetic:300"),
    ("train", "synthetic:300", "--out", "run", "--epochs", "1", "--set", "dim=8", "--set", "batch_size=50"),
    ("evaluate", "run", "--task", "recommend", "--as-of", "batch", "--no-heuristics"),
    ("recommend", "run", "--node", "1", "-k", "3", "--json"),
    ("embed", "run", "--out", "embeddings.csv"),
    ("reproduce", "table2", "--quick", "--datasets", "synthetic:300", "--models", "jodie", "--no-heuristics"),
)


def requirements(name: str) -> Iterator[Distribution]:
    """Yield a distribution and all that it requires without extras, each once."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if current in seen:
            continue
        seen.add(current)
        try:
            found = distribution(current)
        except PackageNotFoundError:
            continue  # a requirement of another platform
        yield found
        needed = (Requirement(text) for text in found.requires or ())
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]


def link(found: Distribution, into: Path) -> None:
    """Link the top-level files and folders of a distribution."""
    for top in {Path(str(file)).parts[0] for file in found.files or ()}:
        source, target = SITE / top, into / top
        if top not in ("..", "__pycache__") and source.exists() and not target.exists():
            target.symlink_to(source)


def build(folder: Path) -> Path:
    """Build the wheel of the repository."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        str(ROOT),
    ]
    subprocess.run([*command, "--wheel-dir", str(folder)], check=True)
    (wheel,) = folder.glob("contig-*.whl")
    return wheel


def environment(folder: Path, wheel: Path) -> Path:
    """Create an environment with the wheel and its dependencies; return its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    subprocess.run([*install, str(wheel)], check=True)
    for one in requirements("contig"):
        if one.metadata["Name"].lower() != "contig":
            link(one, site)
    return folder / "bin" / "python"


def main() -> None:
    """Run every command of the smoke test; exit with an error if one fails."""
    started = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="contig-wheel-"))
    try:
        python = environment(folder / "environment", build(folder / "dist"))
        work = folder / "work"
        work.mkdir()
        absent = "from importlib.util import find_spec; assert not any(map(find_spec, ('pandas', 'optuna')))"
        for command in (["-c", absent], *(["-m", "contig", *words] for words in COMMANDS)):
            done = subprocess.run(
                [str(python), *command], cwd=work, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        print(f"the wheel works: {len(COMMANDS)} commands in {time.perf_counter() - started:.0f} s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
