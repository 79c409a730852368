"""Install the lowest versions that pyproject.toml allows, and run what a user would: ``make test-lowest``.

torch itself stays at the version of constraints.txt: each version is a large download.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--epochs", "1", "--set", "dim=8", "--set", "time_dim=6"]
COMMANDS = [
    ["--help"],
    ["datasets"],
    ["models", "contig"],
    ["inspect", "synthetic:500", "--plot", "stream.png"],
    ["train", "synthetic:500", "--out", "run", *SMALL],
    ["train", "synthetic:500", "--out", "pair", "--model", "contig-pair", *SMALL],
    ["resume", "run"],
    ["evaluate", "run", "--task", "recommend", "--as-of", "batch"],
    ["recommend", "pair", "--out", "lists.parquet"],
    ["recommend", "run", "--out", "lists.csv"],
    ["embed", "run", "--out", "embeddings.arrow"],
    ["score", "pair", "later.csv", "--out", "scores.parquet"],
    ["update", "run", "later.csv"],
    ["compare", "synthetic:500", "--models", "contig,recency", "--seeds", "1", "--out", "compared", *SMALL],
]


def lowest(dependencies: list[str]) -> list[str]:
    """Return the lower bounds as exact versions, torch as it is pinned."""
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    found = []
    for one in dependencies:
        match = re.fullmatch(r"([A-Za-z0-9_-]+)>=([0-9.]+)", one)
        assert match, f"{one}: expected NAME>=VERSION"
        name, version = match.groups()
        found.append(f"{name}=={pinned['torch'] if name == 'torch' else version}")
    return found


def main() -> None:
    """Install into a new environment and run the commands; exit with 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-lowest")
    given = parser.parse_args()
    python = given.venv / "bin" / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = lowest(project["dependencies"])
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", given.venv], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    print("installed", *wanted, flush=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        environment["NUMBA_CACHE_DIR"] = str(Path(folder) / "compiled")
        failed = [words for words in COMMANDS if not _works(python, words, Path(folder), environment)]
    print(f"{len(COMMANDS) - len(failed)} of {len(COMMANDS)} commands work")
    sys.exit(bool(failed))


def _works(python: Path, words: list[str], folder: Path, environment: dict[str, str]) -> bool:
    if words[0] == "score":
        _write_later(python, folder)
    ended = subprocess.run(
        [python, "-m", "contig", *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    print("ok    " if not ended.returncode else "FAILED", *words, flush=True)
    if ended.returncode:
        print(ended.stderr[-2000:])
    return not ended.returncode


def _write_later(python: Path, folder: Path) -> None:
    """Write pairs of the run's own nodes, after its last event."""
    program = (
        "import numpy as np\n"
        "ids, src, dst, t = (np.load(f'run/stream/{n}.npy') for n in ('ids', 'src', 'dst', 't'))\n"
        "rows = [f'{ids[a]},{ids[b]},{t[-1] + 1}' for a, b in zip(src[:9], dst[:9])]\n"
        "open('later.csv', 'w').write('\\n'.join(['src,dst,t', *rows]) + '\\n')\n"
    )
    subprocess.run([python, "-c", program], cwd=folder, check=True)


if __name__ == "__main__":
    main()
