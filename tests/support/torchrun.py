"""Train with the real ``torchrun`` and compare with one process: ``make test-torchrun``.

The tests fork their ranks instead, since starting Python and loading torch for each takes much longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contig.runs.run import Run

MODELS = ("contig", "contig-pair", "tgn", "jodie", "dyrep")
LAYOUTS = ("replicated", "sharded")
UNSUPPORTED = {("dyrep", "sharded")}  # refused with a message
DATA = "synthetic:1500"
SETTINGS = ("dim=16", "time_dim=8", "neighbors=4", "batch_size=100", "lr=0.001")
WITHOUT_DROPOUT = {"contig": 1, "contig-pair": 2, "tgn": 1}  # of these options; ranks draw other masks
DROPOUT = ("dropout=0", "evidence_dropout=0")
TOLERANCE = 5e-3  # in AP: rounding orders nearly equal scores in another way, and there are few test events


def contig(ranks: int, *arguments: str) -> None:
    """Run a command of contig in one process, or in several that torchrun starts."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"]
    command = [sys.executable, "-m", *(launcher if ranks > 1 else []), "contig", *arguments]
    done = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


def train(model: str, out: Path, ranks: int, layout: str = "replicated") -> float:
    """Train one epoch and return the test AP."""
    settings = (*SETTINGS, *DROPOUT[: WITHOUT_DROPOUT.get(model, 0)])
    chosen = [
        word
        for setting in settings
        if model != "jodie" or "neighbors" not in setting
        for word in ("--set", setting)
    ]
    contig(
        ranks,
        "train",
        DATA,
        "--model",
        model,
        "--out",
        str(out),
        "--epochs",
        "1",
        "--device",
        "cpu",
        "--state",
        layout,
        *chosen,
    )
    return Run.open(out, "cpu").metrics.transductive.ap


def check(found: float, expected: float, what: str) -> None:
    """Print a test AP, and stop if it is not that of one process."""
    print(f"{what:30s} {100 * found:.2f} (one process {100 * expected:.2f})", flush=True)
    if abs(found - expected) > TOLERANCE:
        raise SystemExit(f"{what} differs from one process.")


def main() -> None:
    """Train every model that has a memory by one process and by two ranks; resume one by three."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="contig-torchrun-") as folder:
        for model in MODELS:
            expected = train(model, Path(folder) / model, 1)
            for layout in LAYOUTS:
                if (model, layout) not in UNSUPPORTED:
                    found = train(model, Path(folder) / f"{model}-{layout}", 2, layout)
                    check(found, expected, f"{model}, {layout}")
        for name, ranks in (("tgn", 1), ("tgn-sharded", 3)):
            contig(ranks, "resume", str(Path(folder) / name), "--epochs", "2", "--device", "cpu")
        one, three = (Run.open(Path(folder) / name, "cpu").metrics for name in ("tgn", "tgn-sharded"))
        check(three.transductive.ap, one.transductive.ap, "tgn, resumed by three ranks")
    print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
