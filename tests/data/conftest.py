"""Fixtures for tests that read data."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.sites import Site, serving

from contig.data import downloads
from contig.data.catalog import DATASETS, register_dataset
from contig.data.readers import READERS


@pytest.fixture
def restored_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what the test registers."""
    for registry in (DATASETS, READERS):
        monkeypatch.setattr(registry, "_registered", dict(registry._registered))


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONTIG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloads, "RETRY_PAUSE", 0.0)
    return tmp_path / "cache"


@pytest.fixture
def no_data_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTIG_DATA", raising=False)


@pytest.fixture
def tiny(site: Site, restored_registries: None, no_data_dir: None) -> Callable[..., bytes]:
    """``tiny("wikipedia", JODIE, 5, 5)``: the dataset is now this small file on the site."""

    def publish(name: str, text: str, events: int, nodes: int, fingerprint: str | None = None) -> bytes:
        filename = DATASETS[name].filename
        assert filename is not None
        body = gzip.compress(text.encode()) if filename.endswith(".gz") else text.encode()
        site.files[filename] = body
        entry = replace(
            DATASETS[name], url=site.url(filename), events=events, nodes=nodes, fingerprint=fingerprint
        )
        register_dataset(entry, replace=True)
        return body

    return publish
