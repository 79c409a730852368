"""The packages that serving needs, and how their absence is reported."""

from __future__ import annotations

import pytest

from contig.serve import packages


def test_the_tests_of_the_service_are_collected() -> None:
    if (missing := packages.missing_packages()) is not None:
        pytest.skip(f"the tests of the service are left out: {missing}")
    from contig.serve import create_app

    assert create_app.__module__ == "contig.serve.app"  # the packages are enough to import it


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None if name == "uvicorn" else object())
    assert packages.missing_packages() == "needs uvicorn; install the extra: pip install 'contig[serve]'"
