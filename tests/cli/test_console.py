"""Notes under tables."""

from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console

from contig.cli import console

NOTE = "ind.: events with a new node; their negatives are drawn among all destinations (ours) or among others"


@pytest.mark.parametrize("width", [30, 60, 80])
def test_notes_are_wrapped_with_an_indent(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(
        console,
        "out",
        lambda: Console(file=file, width=width, force_terminal=True, color_system=None, highlight=False),
    )
    console.print_note(NOTE)
    first, *others = [line.rstrip() for line in file.getvalue().splitlines()]
    assert first.startswith("  ind.")
    assert others
    assert all(line.startswith("    ") and not line.startswith("     ") for line in others)
    assert max(map(len, (first, *others))) <= width
    assert " ".join(line.strip() for line in (first, *others)) == NOTE


def test_notes_in_a_file_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(console, "out", lambda: Console(file=file, width=40))
    console.print_note(NOTE)
    assert file.getvalue() == f"  {NOTE}\n"


def test_what_every_process_may_say_is_printed_by_others_than_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.err.cache_clear()
    log = logging.getLogger("contig")
    try:
        with console.shown_log():
            for quiet in (False, True):
                console.silence(True, urgent=quiet)
                log.warning("usual of a quiet process" if quiet else "usual")
                log.warning("urgent of a quiet process" if quiet else "urgent", extra={"urgent": True})
    finally:
        console.silence(False)
    assert capsys.readouterr().err == "note: urgent\n"
    console.err.cache_clear()
