"""Choosing and describing devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from contig.errors import ConfigError
from contig.kernels.devices import parse_devices, pick_device


@pytest.mark.parametrize(("available", "expected"), [(False, "cpu"), (True, "cuda")])
def test_auto_is_a_gpu_if_there_is_one(
    available: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        assert pick_device("auto") == torch.device(expected)
        assert torch.backends.cuda.matmul.allow_tf32 is available
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def test_a_missing_gpu_and_unknown_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="torch finds no GPU"):
        pick_device("cuda:1")
    with pytest.raises(ConfigError, match="'gpu' is not a device"):
        pick_device("gpu")


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.device]]:
    """Three GPUs; returns those that are made the current one."""
    before = torch.backends.cuda.matmul.allow_tf32
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    yield current
    torch.backends.cuda.matmul.allow_tf32 = before


def test_a_numbered_gpu_becomes_the_current_one(three_gpus: list[torch.device]) -> None:
    """Else kernels would be launched on the first one."""
    assert pick_device("cuda:2") == torch.device("cuda", 2)
    assert three_gpus == [torch.device("cuda", 2)]
    pick_device("cuda")
    assert len(three_gpus) == 1
    with pytest.raises(ConfigError, match="torch finds 3 GPUs, numbered from cuda:0"):
        pick_device("cuda:3")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("cuda", ["cuda:0", "cuda:1", "cuda:2"]),
        ("auto", ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda:2, cuda:0,cuda:2", ["cuda:2", "cuda:0", "cuda:2"]),
        ("cpu", ["cpu"]),
    ],
)
def test_lists_of_devices(names: str, expected: list[str], three_gpus: list[torch.device]) -> None:
    assert parse_devices(names) == expected
    assert three_gpus == []  # the process that only hands out work uses none of them


def test_a_list_with_a_missing_device_is_refused(three_gpus: list[torch.device]) -> None:
    for names, message in {"cuda:1,cuda:3": "'cuda:3': torch finds 3", "cpu,,cuda": "'' is not"}.items():
        with pytest.raises(ConfigError, match=message):
            parse_devices(names)


def test_one_gpu_or_none_is_named_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert parse_devices("auto") == ["auto"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert parse_devices("cuda") == ["cuda"]
