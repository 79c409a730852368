"""Inside a worker process: run one piece of work after another, each with its own log.

Nothing heavy is imported here: the number of threads must be set before torch is loaded.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from contig.errors import ContigError
from contig.kernels.malloc import keep_freed_memory

INTERRUPTED = "interrupted"


class Runnable(Protocol):
    """Work that a process can do on its own; it is pickled on its way there."""

    @property
    def log(self) -> Path:
        """The file that collects everything the work prints or logs."""

    def run(self, device: str) -> None:
        """Do the work; any exception is a failure."""


def serve(requests: Connection, threads: int | None) -> None:
    """Run the work that arrives until the pipe closes; send back why each failed, or None."""
    _prepare(threads)
    if hasattr(os, "register_at_fork"):  # else the pipe would stay open in children when this process dies
        os.register_at_fork(after_in_child=requests.close)
    try:
        while True:
            work, device = requests.recv()
            requests.send(perform(work, device))
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return


def perform(work: Runnable, device: str) -> str | None:
    """Run ``work`` and return why it failed, or None; leave the process as it was before."""
    try:
        with _output_to(work.log), warnings.catch_warnings(), _settings_restored():
            return _run(work, device)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # such as a log that cannot be written
        return _reason(error)


def _run(work: Runnable, device: str) -> str | None:
    try:
        work.run(device)
    except Exception as error:
        traceback.print_exc()
        return _reason(error)
    finally:
        _release_memory()
    return None


def _reason(error: Exception) -> str:
    """Describe an error in one line; the log has all of it."""
    text = str(error) if isinstance(error, ContigError) else f"{type(error).__name__}: {error}"
    return text.strip().partition("\n")[0]


# --- when the process starts -------------------------------------------------------------------------------


def _prepare(threads: int | None) -> None:
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        if torch := sys.modules.get("torch"):  # the main module of the parent may import it
            torch.set_num_threads(threads)
    keep_freed_memory()
    faulthandler.enable()
    _handle_signals()
    _exit_with_parent()
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("contig").setLevel(logging.INFO)


def _handle_signals() -> None:
    """Stop on SIGTERM only: Ctrl-C reaches the parent, which decides what happens to its workers."""
    if hasattr(os, "setsid"):
        os.setsid()  # also makes a process group of this process and its children
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _exit_with_parent() -> None:
    """End this process and its children when its parent ends, however that happens."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            if hasattr(os, "killpg"):
                os.killpg(os.getpid(), signal.SIGKILL)
            os._exit(1)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()


# --- around each piece of work -----------------------------------------------------------------------------


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Append everything that is printed to a file, also what native code prints."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in enumerate(before, start=1):
            os.dup2(copy, number)
            os.close(copy)


@contextmanager
def _settings_restored() -> Iterator[None]:
    """Put back torch's process-wide settings, so that no work depends on what ran before it."""
    torch = sys.modules.get("torch")  # loaded with the work that needs it
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    tf32 = matmul.allow_tf32, cudnn.allow_tf32
    try:
        with torch.random.fork_rng(devices=[]):  # trainings fork the generator of their GPU themselves
            yield
    finally:
        torch.set_num_threads(threads)
        matmul.allow_tf32, cudnn.allow_tf32 = tf32


def _release_memory() -> None:
    """Free what the work leaves behind: figures, compiled code, GPU memory, freed but unreturned pages."""
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
    torch = sys.modules.get("torch")
    if "torch._dynamo" in sys.modules and torch is not None:
        torch.compiler.reset()  # a function is compiled for a few models only, then runs uncompiled
    gc.collect()
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
