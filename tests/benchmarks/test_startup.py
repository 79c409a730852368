"""Fresh interpreters are started on both sides."""

from __future__ import annotations

import pytest

from contig.benchmarks import startup
from contig.benchmarks.bench import Bench


def test_commands_alternate_with_what_they_are_compared_with(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(startup, "run_python", lambda *arguments: calls.append(" ".join(arguments)))
    rows = list(startup.measure_startup(bench))
    assert [(row.what, row.peer_name) for row in rows] == [
        ("import contig", "import torch"),
        ("contig --help", "python -c pass"),
    ]
    assert calls == ["-c import contig", "-c import torch"] * 3 + ["-m contig --help", "-c pass"] * 3
