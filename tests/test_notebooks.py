"""Notebooks are made from the tutorials: the same programs and commands, the same text."""

from __future__ import annotations

import base64
import importlib.util
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "docs"
PAGE = """# Title

Some [other page](../guide.md#part), [the web](https://example.org) and

![a picture](picture.png)

```python
import contig

print(1 + 1)  # 2
```

```console
$ contig train a.csv \\
    --epochs 1
row  one
$ contig evaluate runs/a
```
```text
$ contig serve
```

Last words.
"""


@pytest.fixture(scope="module")
def notebooks() -> Any:
    spec = importlib.util.spec_from_file_location("notebooks", FOLDER / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_blocks_become_cells_and_the_rest_text(notebooks: Any, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"PNG")
    cells = notebooks.tutorial_notebook(PAGE, tmp_path)["cells"]
    kinds = [cell["cell_type"] for cell in cells]
    assert kinds == ["markdown", "code", "code", "markdown"]
    head, program, commands, tail = (cell["source"] for cell in cells)
    assert "Some other page, [the web](https://example.org) and" in head  # a download has no other pages
    assert "![a picture](attachment:picture.png)" in head
    assert base64.b64decode(cells[0]["attachments"]["picture.png"]["image/png"]) == b"PNG"
    assert program == "import contig\n\nprint(1 + 1)  # 2"
    assert commands == "!contig train a.csv --epochs 1\n!contig evaluate runs/a"
    assert tail == "```text\n$ contig serve\n```\n\nLast words."


@pytest.mark.parametrize("page", sorted((FOLDER / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_every_tutorial_is_a_valid_notebook(page: Path, notebooks: Any) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the extra docs")
    notebook = notebooks.tutorial_notebook(page.read_text("utf-8"), page.parent)
    nbformat.validate(nbformat.from_dict(notebook))
    assert notebook["cells"][0]["source"].startswith("# ")
    assert any(cell["cell_type"] == "code" for cell in notebook["cells"])


def test_a_cell_that_prints_something_else_fails(notebooks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient", reason="needs the extra docs")
    pytest.importorskip("ipykernel", reason="needs the extra docs")
    monkeypatch.setattr(notebooks, "SETUP", "import os")  # without contig the kernel is there at once
    good, bad = (
        notebooks.tutorial_notebook(f"```python\nprint(1 + 1)  # {n}\n```\n", FOLDER) for n in (2, 3)
    )
    assert '"2\\n"' in notebooks.execute({"good": good})["good"]
    with pytest.raises(ValueError, match=r"bad: cell 1 promises \['3'\] and prints \['2'\]"):
        notebooks.execute({"bad": bad})
