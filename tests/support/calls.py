"""Functions as work for worker processes.

torch is imported only by those that need it, because every new worker would have to load it.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contig.errors import DataError
from contig.experiments.workers import WorkerPool, sigterm_interrupts


@dataclass(frozen=True)
class Call:
    """Work that calls a function."""

    log: Path
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def run(self, device: str) -> None:
        self.function(*self.arguments)


def print_in_many_ways() -> None:
    print("printed")
    logging.getLogger("contig").info("logged")
    warnings.warn("warned", stacklevel=1)
    os.write(2, b"written by native code\n")
    subprocess.run([sys.executable, "-c", "print('of a child')"], check=True)


def load_torch() -> None:
    """As jobs do when they are unpickled, before they run."""
    import torch  # noqa: F401


def describe_process() -> None:
    import torch

    print(os.getpid(), os.environ["OMP_NUM_THREADS"], torch.get_num_threads(), torch.initial_seed())
    print(torch.backends.cuda.matmul.allow_tf32, torch.rand(2).tolist())


def change_settings() -> None:
    import torch

    torch.set_num_threads(2)
    torch.manual_seed(5)
    torch.backends.cuda.matmul.allow_tf32 = True


def print_process_id() -> None:
    print(os.getpid())


def print_from_a_child() -> None:
    child = multiprocessing.get_context("spawn").Process(target=print, args=("of a child process",))
    child.start()
    child.join()


def leave_a_child(pipe: Path) -> None:
    """Be killed while a forked child holds a named pipe open and waits for ever."""
    child = multiprocessing.get_context("fork").Process(target=wait_to_be_stopped, args=(str(pipe),))
    child.start()
    os.kill(os.getpid(), signal.SIGKILL)


def print_content(path: Path) -> None:
    print(path.read_text())


def raise_data_error() -> None:
    raise DataError("Column t is missing.")


def raise_value_error() -> None:
    raise ValueError("three")


def exit_silently() -> None:
    os._exit(3)


def kill_itself() -> None:
    print("about to be killed", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    ctypes.string_at(0)


def terminate_itself() -> None:
    signal.raise_signal(signal.SIGTERM)
    threading.Event().wait()


def wait_to_be_stopped(pipe: str) -> None:
    """Write the process id to a named pipe, and ``stopped`` if there is time to clean up."""
    with Path(pipe).open("w") as file:
        try:
            print(os.getpid(), file=file, flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:
            print("stopped", file=file, flush=True)
            raise


if __name__ == "__main__":  # python -m support.calls PIPE LOG: a parent to be stopped
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with it ignored
    try:
        with sigterm_interrupts(), WorkerPool(1) as pool:
            pool.start(0, Call(Path(sys.argv[2]), wait_to_be_stopped, (sys.argv[1],)), "cpu")
            pool.wait()
    except KeyboardInterrupt:
        sys.exit(130)
