"""The command line as a whole."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from support.commands import Answer
from typer.main import get_command

from contig import __version__
from contig.cli import app, console, data, main

pytestmark = pytest.mark.usefixtures("isolated")
COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "contig", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )


def help_text(command: str) -> str:
    """The text between the usage and the arguments."""
    return Answer(command, "--help").out.partition("PAIRS")[2].partition("╭")[0]


def test_the_installed_command_is_this_command_line() -> None:
    (script,) = entry_points(group="console_scripts", name="contig")
    assert script.load() is main


def test_an_unknown_name_gets_a_suggestion() -> None:
    done = program("inspect", "wikipedai", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Unknown dataset 'wikipedai'. Did you mean 'wikipedia'?")
    assert done.stderr.count("\n") == 1


def test_a_traceback_is_shown_in_debug_mode() -> None:
    done = program("inspect", "wikipedai", CONTIG_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ConfigError: Unknown dataset 'wikipedai'" in done.stderr


def test_unknown_options_are_rejected(five_visits: Path) -> None:
    answer = Answer("inspect", five_visits, "--jsno")
    assert (answer.code, answer.out) == (2, "")
    assert "--jsno" in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "error: No such command 'trian'. Did you mean 'train'? See: contig --help"),
        (["--jsno"], "error: No such option: --jsno. See: contig --help"),
        (["embed"], "error: Missing argument 'RUN'. See: contig embed --help"),
    ],
)
def test_wrong_usage_looks_like_every_other_error(arguments: list[str], message: str) -> None:
    assert Answer(*arguments).refusal == f"{message}\n"


def test_a_file_that_cannot_be_written_is_an_error(
    five_visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "locked/file")

    monkeypatch.setattr(data, "read_stream", deny)
    assert (
        Answer("inspect", five_visits).refusal
        == "error: locked/file: Permission denied; choose another path, or change its permissions.\n"
    )


def test_success_exits_with_0(five_visits: Path) -> None:
    done = program("inspect", str(five_visits), "--json")
    assert (done.returncode, json.loads(done.stdout)["nodes"]) == (0, 5)


def test_an_interrupt_exits_with_130(five_visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "read_stream", interrupt)
    answer = Answer("inspect", five_visits)
    assert (answer.code, answer.out, answer.err) == (130, "", "error: interrupted\n")


def test_a_long_message_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    path = f"/{'very-long-folder/' * 12}events[1].csv"
    console.error(f"{path}: [bold]not markup[/bold]")
    assert capsys.readouterr().err == f"error: {path}: [bold]not markup[/bold]\n"


def test_the_version_is_that_of_the_package() -> None:
    assert Answer("--version").out == f"contig {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_examples(command: str) -> None:
    answer = Answer(command, "--help")
    assert answer.code == 0
    assert "Examples" in answer.out
    assert answer.out.count(f"contig {command}") >= 2
    for typed in ("bool", "<", "default: ("):
        assert typed not in answer.out
    assert "{" not in next(line for line in answer.out.splitlines() if "Usage:" in line)
    assert "pip install 'contig'" not in answer.words  # rich takes the name of an extra for markup


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_fit_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = Answer(command, "--help").out.partition("Examples")[2].splitlines()
    assert [line for line in lines if line.strip() and not line.startswith(" contig ")] == []


def test_paragraphs_of_help_fill_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    summary, paragraph = filter(None, map(str.strip, help_text("score").splitlines()))
    assert summary.startswith("Score pairs at times")
    assert paragraph.endswith("from the events strictly before its time.")
    monkeypatch.setenv("COLUMNS", "60")
    console.out.cache_clear()
    assert help_text("score").split() == f"{summary} {paragraph}".split()


@pytest.mark.parametrize(("command", "extra"), [("index", "index"), ("serve", "serve")])
def test_the_help_names_the_extra_to_install(command: str, extra: str) -> None:
    assert f"pip install 'contig[{extra}]'" in Answer(command, "--help").words


def test_the_main_help_has_examples() -> None:
    assert "contig datasets" in Answer("--help").out.partition("Examples")[2]


@pytest.mark.parametrize("command", ["inspect", "datasets"])
def test_help_loads_no_heavy_package(command: str) -> None:
    code = (
        "import sys, contig.cli\n"
        f"try: contig.cli.app(['{command}', '--help'])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert {"contig", "typer"} <= loaded
    assert (
        loaded & {"torch", "matplotlib", "sklearn", "scipy", "pyarrow", "numba", "pandas", "numpy"} == set()
    )


def test_log_handlers_are_removed_after_a_command(five_visits: Path) -> None:
    log = logging.getLogger("contig")
    before = log.level, list(log.handlers)
    assert "ignored 1 column" in Answer("inspect", five_visits).err
    assert (log.level, list(log.handlers)) == before


def test_a_rank_that_has_ended_is_named_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gloo's own message names sockets, and the other rank has said what is wrong."""

    def lose(*given: object, **more: object) -> None:
        raise RuntimeError("[pair.cc:553] Connection closed by peer [127.0.0.1]:29500. GLHF!")

    monkeypatch.setattr("contig.cli.models.console.out", lose)
    assert "Another rank has ended; its own message says why." in Answer("models").refusal
