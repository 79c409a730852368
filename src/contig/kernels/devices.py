"""Choose and describe a device."""

from __future__ import annotations

import platform

import torch

from contig.caches import redirect_compiler_caches
from contig.errors import ConfigError
from contig.ranks import own_gpu, ranks
from contig.wording import counted


def pick_device(name: str) -> torch.device:
    """Return the device of this name; ``auto`` is a GPU if there is one."""
    device = _checked(name)
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True  # float32 states, TF32 products
        redirect_compiler_caches()
        if ":" not in name and not ranks().alone:
            device = torch.device("cuda", own_gpu(torch.cuda.device_count()))
        if ":" in str(device):
            torch.cuda.set_device(device)  # kernels are launched on the current device
    return device


def parse_devices(names: str) -> list[str]:
    """Return the devices of a comma-separated list; ``auto`` or ``cuda`` alone stands for every GPU."""
    listed = [name.strip() for name in names.split(",")]
    gpus = [_checked(name).type == "cuda" for name in listed]
    if listed in (["auto"], ["cuda"]) and all(gpus) and torch.cuda.device_count() > 1:
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return listed


def _checked(name: str) -> torch.device:
    """Return the device of a name; raise ``ConfigError`` if this machine has none of that name."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device={name!r} is not a device; use auto, cpu, cuda or cuda:1.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device={name!r}: torch finds no GPU; use cpu or auto.")
    if device.type == "cuda" and ":" in name and device.index >= torch.cuda.device_count():
        found = counted(torch.cuda.device_count(), "GPU")
        raise ConfigError(f"device={name!r}: torch finds {found}, numbered from cuda:0.")
    return device


def hardware(device: torch.device) -> str:
    """Return the name of the device, for logs and reports."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{platform.processor() or platform.machine()} CPU, {threads} thread{'s' * (threads > 1)}"
