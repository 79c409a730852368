"""The description of the machine and its packages."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

import contig
from contig.benchmarks import environment


def test_versions_are_those_of_the_imported_packages() -> None:
    versions = environment.versions()
    assert versions["contig"] == contig.__version__
    assert versions["numpy"] == np.__version__
    assert torch.__version__.startswith(versions["torch"].split("+")[0])


def test_absent_packages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "PACKAGES", ("numpy", "no-such-package"))
    assert environment.versions().keys() == {"contig", "numpy"}


def test_a_missing_package_raises_with_the_command_that_installs_it() -> None:
    environment.require("numpy")
    with pytest.raises(environment.MissingPackage, match=r"no_such_package.*pip install 'contig\[bench\]'"):
        environment.require("no_such_package")


def test_the_processor_has_its_cores() -> None:
    assert environment.processor().endswith(f", {os.cpu_count()} cores")
