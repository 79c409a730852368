"""The repository holds no data and no private paths, and packages everything under one version."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import contig

ROOT = Path(__file__).resolve().parent.parent
DATA = {
    ".parquet",
    ".feather",
    ".arrow",
    ".npz",
    ".npy",
    ".pt",
    ".pth",
    ".pkl",
    ".safetensors",
    ".gz",
    ".zip",
}
TABLES = {".csv", ".tsv", ".txt", ".json", ".jsonl"}  # allowed when small

# Written so that this file does not match itself.
PRIVATE = {
    "an absolute path": r"(?<![\w.:/*-])/(?:work|home|root|Users|opt)/",
    "a folder outside the repository": r"\.\./(?:shared)",
    "a package registry": r"(?:pypi)\.org|(?:pythonhosted)\.org|(?:download\.pytorch)\.org",
}
EXEMPT = {".ci/run": {"a folder outside the repository"}}


@pytest.fixture(scope="module")
def files() -> list[str]:
    """The files that git tracks or would add."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_data_is_committed(files: list[str]) -> None:
    sizes = {name: (ROOT / name).stat().st_size for name in files}
    assert [name for name in files if Path(name).suffix in DATA] == []
    assert [name for name in files if Path(name).suffix in TABLES and sizes[name] > 50_000] == []
    assert [name for name in files if sizes[name] > 1_000_000] == []


def private_names(text: str) -> set[str]:
    """The kinds of private names that a text contains."""
    return {what for what, pattern in PRIVATE.items() if re.search(pattern, text)}


def test_no_private_path_is_mentioned(files: list[str]) -> None:
    texts = {name: (ROOT / name).read_text("utf-8", errors="ignore") for name in files}
    mentioned = {
        name: found
        for name, text in texts.items()
        if (found := private_names(text) - EXEMPT.get(name, set()))
    }
    assert mentioned == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see /" + "work/main", "an absolute path"),
        ("'/" + "home/someone/data'", "an absolute path"),
        ("cd ..", None),
        ("data = root / '..' / '../" + "shared/data'", "a folder outside the repository"),
        ("https://example.com/" + "home/page", None),
        ("https://py" + "pi.org/simple", "a package registry"),
    ],
)
def test_the_check_finds_private_paths(text: str, found: str | None) -> None:
    assert private_names(text) == ({found} if found else set())


# Word stems whose American spelling is the field's; "raise", "noise" and the like are no such words.
BRITISH = re.compile(
    r"(?:amort|initial|maxim|minim|normal|optim|organ|parallel|random|recogn|serial|summar|synchron|vector)is"
    r"(?:e|ing|ation)|neighbour|behaviour|colour|favourite|centred|labelled|catalogue|analyse",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    ("text", "british"),
    [
        ("Summar" + "ise", ["Summar" + "ise"]),
        ("_normal" + "ised", ["normal" + "ise"]),
        ("raise the noise of a neighbor", []),
    ],
)
def test_the_check_finds_british_spelling(text: str, british: list[str]) -> None:
    assert BRITISH.findall(text) == british


def test_the_package_is_spelled_in_american_english() -> None:
    found = {
        path.name: words
        for path in (ROOT / "src").rglob("*.py")
        if (words := BRITISH.findall(path.read_text("utf-8")))
    }
    assert found == {}


def project() -> dict[str, str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file)["project"])


def test_the_package_has_the_version_of_the_project() -> None:
    assert contig.__version__ == project()["version"]


def test_the_changelog_has_an_entry_for_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert project()["version"] in headings


def test_setup_installs_the_pinned_torch() -> None:
    pinned = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    installed = re.findall(r"\btorch==(\S+)", (ROOT / "Makefile").read_text("utf-8"))
    assert len(pinned) == 1
    assert set(installed) == set(pinned)


def test_the_wheel_holds_the_whole_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    packaged = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    expected = {p.relative_to(source).as_posix() for p in (source / "contig").rglob("*") if p.is_file()}
    assert "contig/py.typed" in packaged
    assert {name for name in expected if "__pycache__" not in name} - packaged == set()
    assert any(name.endswith("licenses/LICENSE") for name in packaged)
