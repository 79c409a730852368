"""Choosing and describing devices."""

from __future__ import annotations

import pytest
import torch

from contig.errors import ConfigError
from contig.kernels.devices import pick_device


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
