"""The report of a study: one self-contained HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from contig.experiments.identity import numerics_of
from contig.experiments.jobs import Job
from contig.experiments.recipes import find_recipe
from contig.models import model_class
from contig.reproduction.plan import Plan
from contig.reproduction.protocol import DIFFERENCES, PROTOCOL, differences, protocol, seeds_text
from contig.reproduction.study import Study
from contig.reproduction.tables.html import as_html
from contig.reproduction.tables.layout import Layout, Sheet
from contig.reproduction.tables.numbers import Table
from contig.runs.folder import RunFolder
from contig.wording import counted

TITLE = "Reproducing ConTIG"


def report(
    plan: Plan,
    tables: Sequence[Table],
    claims: Sheet,
    figures: Mapping[str, str],
    failures: Sequence[str],
) -> str:
    """Write the page; ``figures`` are ``svg`` elements by the names of their tables."""
    study = plan.study
    sections = {
        "Summary": _summary(study, tables, claims),
        **{table.title: _item(table.sheet(), figures.get(table.name, "")) for table in tables},
        "Datasets": _datasets(study),
        "Settings": _settings(plan),
        PROTOCOL: _list(protocol(plan)),
        DIFFERENCES: _list(differences(plan)),
        "Runs": _runs(plan),
        "Failures": _list(failures) if failures else "",
    }
    return _page(study.scale.warning, _facts(plan), {name: part for name, part in sections.items() if part})


def hardware(plan: Plan) -> list[str]:
    """Return the hardware of the finished runs."""
    metrics = (RunFolder(job.folder).metrics() for job in plan.jobs if job.done)
    return list(dict.fromkeys(one.facts.hardware for one in metrics))


# --- the page ----------------------------------------------------------------------------------------


def _page(warning: str, facts: Sequence[str], sections: Mapping[str, str]) -> str:
    title = f"QUICK: {TITLE}" if warning else TITLE
    tag = ' <span class="tag">QUICK</span>' if warning else ""
    banner = f'<p class="warning">{escape(warning)}</p>' if warning else ""
    contents = "".join(f'<li><a href="#{_slug(name)}">{escape(name)}</a></li>' for name in sections)
    body = "".join(
        f'<section id="{_slug(name)}"><h2>{escape(name)}{tag}</h2>{part}</section>'
        for name, part in sections.items()
    )
    style = files("contig.reproduction").joinpath("report.css").read_text("utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{style}</style></head><body>"
        f"<nav><b>contig</b><ol>{contents}</ol></nav><main><header><h1>{escape(title)}</h1>{banner}"
        f"{_list(facts, 'facts')}</header>{body}</main></body></html>\n"
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _facts(plan: Plan) -> list[str]:
    names = ", ".join(dataset.name for dataset in plan.study.datasets)
    versions = dict.fromkeys(numerics_of(job.folder) for job in plan.jobs if job.done)
    return [names, seeds_text(plan).lower(), *hardware(plan), *(f"numerics {v}" for v in versions)]


def _list(lines: Iterable[str], kind: str = "") -> str:
    return f'<ul class="{kind}">' + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _wide(layout: Layout) -> str:
    return f'<div class="wide">{as_html(layout)}</div>'


def _folded(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table that is closed at first; empty without rows."""
    return f"<details><summary>{escape(title)}</summary>{_rows(header, rows)}</details>" if rows else ""


def _rows(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    table = f'<table class="prose"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="wide">{table}</div>'


# --- sections ----------------------------------------------------------------------------------------


def _summary(study: Study, tables: Sequence[Table], claims: Sheet) -> str:
    grids = (study.item(table.name).summary(table) for table in tables)
    layouts = [*(grid.layout() for grid in grids if grid), *claims.layouts]
    return "".join(map(_wide, layouts)) + (_list(claims.notes, "notes") if claims.layouts else "")


def _item(sheet: Sheet, figure: str) -> str:
    drawn = f"<figure>{figure}</figure>" if figure else ""
    grids = "".join(map(_wide, sheet.layouts))
    return f'{drawn}<div class="grids">{grids}</div>{_list(sheet.notes, "notes")}'


def _datasets(study: Study) -> str:
    return _rows(
        ["dataset", "size", "fingerprint"],
        ((d.name, d.describe(), d.stream.fingerprint()[:16]) for d in study.datasets),
    )


def _settings(plan: Plan) -> str:
    """List each recipe once, with where its settings come from."""
    recipes = {job.recipe.name: job for job in plan.jobs}
    rows = [_setting(plan.study, job) for job in recipes.values()]
    header = ["dataset", "model", "variant", "settings", "training", "source"]
    return _folded(f"{len(rows):,} recipes", header, rows)


def _setting(study: Study, job: Job) -> tuple[str, ...]:
    recipe, train = job.recipe, job.recipe.config(job.seed).train
    name = next((d.name for d in study.datasets if d.data == recipe.data), recipe.data)
    found = find_recipe(study.configs, name, recipe.model)
    own = ", ".join(f"{key}={_word(value)}" for key, value in recipe.settings.items())
    training = f"batch size {train.batch_size}"
    if model_class(recipe.model).learns:
        epochs = counted(train.epochs, "epoch")
        training = f"lr {train.lr:g}, {training}, at most {epochs}, patience {train.patience}"
    source = "defaults of the model" if found is None else f"{found.file}.json"
    return name, recipe.model, recipe.variant, own or "none", training, source


def _word(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _runs(plan: Plan) -> str:
    rows = [_run(job) for job in plan.jobs]
    return _folded(counted(len(rows), "run"), ["run", "epochs", "training time", "hardware"], rows)


def _run(job: Job) -> tuple[object, ...]:
    if not job.done:
        return job.folder.name, "not finished", "", ""
    metrics = RunFolder(job.folder).metrics()
    seconds = sum(epoch.train_seconds for epoch in metrics.epochs)
    return job.folder.name, len(metrics.epochs), f"{seconds:,.0f} s", metrics.facts.hardware
