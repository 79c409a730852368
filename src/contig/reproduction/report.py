"""The report of a reproduction: one HTML page that needs nothing besides itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from contig.experiments.identity import code_of
from contig.experiments.jobs import Job
from contig.experiments.recipes import find_recipe
from contig.experiments.rows import SELECTIONS
from contig.models import model_class
from contig.reproduction.caveats import not_comparable, protocol
from contig.reproduction.grids import Grid, Line, Part, Sheet, Table, as_html, slug
from contig.reproduction.studies import FOCUS, Plan, Study


def report(
    plan: Plan, tables: Sequence[Table], glance: Sheet, pictures: Mapping[str, str], failures: Sequence[str]
) -> str:
    """The page; ``pictures`` are ``svg`` elements by the names of their tables."""
    study = plan.study
    sections = {
        "At a glance": _glance(tables, glance),
        **{table.title: _item(table, pictures.get(table.name, "")) for table in tables},
        "Streams": _streams(study),
        "Settings": _settings(plan),
        "Protocol": _list(protocol(study)),
        "What is not comparable, and why": _list(not_comparable(plan)),
        "Runs": _runs(plan),
    }
    if failures:
        sections["What failed"] = _list(failures)
    filled = {name: content for name, content in sections.items() if content}
    tag = ' <span class="tag">QUICK</span>' if study.scale.warning else ""
    contents = "".join(f'<li><a href="#{slug(n)}">{escape(n)}</a></li>' for n in filled)
    body = "".join(
        f'<section id="{slug(n)}"><h2>{escape(n)}{tag}</h2>{c}</section>' for n, c in filled.items()
    )
    banner = f'<p class="warning">{escape(study.scale.warning)}</p>' if study.scale.warning else ""
    lead = "".join(f"<li>{escape(fact)}</li>" for fact in _facts(plan))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(_title(study))}</title><style>{STYLE}</style></head><body>"
        f"<nav><b>contig</b><ol>{contents}</ol></nav><main><header><h1>{escape(_title(study))}</h1>{banner}"
        f'<ul class="facts">{lead}</ul></header>{body}</main></body></html>\n'
    )


def _title(study: Study) -> str:
    return ("QUICK: " if study.scale.warning else "") + "ConTIG's tables and figures, made again"


def _facts(plan: Plan) -> list[str]:
    study = plan.study
    seeds = f"seeds 0 to {study.seeds - 1}" if study.seeds > 1 else "seed 0"
    codes = {code_of(job.folder): None for job in [*plan.trainings, *plan.timed] if job.done}
    names = ", ".join(source.name for source in study.sources)
    return [names, seeds, *hardware(plan), *(f"code {code}" for code in codes)]


def hardware(plan: Plan) -> list[str]:
    """What the finished runs ran on."""
    found = [_metrics(job)["hardware"] for job in [*plan.trainings, *plan.timed] if job.done]
    return list(dict.fromkeys(found))


def _metrics(job: Job) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((job.folder / "metrics.json").read_text("utf-8"))
    return content


# --- parts -------------------------------------------------------------------------------------------


def _glance(tables: Sequence[Table], glance: Sheet) -> str:
    """The paper's model on every stream beside the paper's numbers, and what becomes of its claims."""
    grids = [grid for table in tables if table.name == "table2" for grid in table.grids]
    lines = [
        Line(f"{grid.title}, {line.section}", line.values)
        for grid in grids
        for line in grid.lines
        if line.label == FOCUS and line.section in SELECTIONS
    ]
    parts: list[Part] = [*glance.grids]
    if lines:
        parts.insert(0, Grid(f"{FOCUS}: link prediction", "stream", grids[0].columns, tuple(lines)))
    return "".join(map(_wide, parts)) + (_list(glance.notes, "notes") if glance.grids else "")


def _wide(grid: Part) -> str:
    return f'<div class="wide">{as_html(grid)}</div>'


def _item(table: Table, picture: str) -> str:
    figure = f"<figure>{picture}</figure>" if picture else ""
    grids = "".join(map(_wide, table.grids))
    return f'{figure}<div class="grids">{grids}</div>{_list(table.notes, "notes")}'


def _list(lines: Iterable[str], kind: str = "") -> str:
    return f'<ul class="{kind}">' + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _rows(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    table = f'<table class="words"><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>'
    return f'<div class="wide">{table}</div>'


def _streams(study: Study) -> str:
    return _rows(
        ["stream", "what it holds", "events' fingerprint"],
        ((source.name, source.facts(), source.stream.fingerprint()[:16]) for source in study.sources),
    )


def _settings(plan: Plan) -> str:
    """Each recipe once: what it says, and where it says so."""
    known = {job.recipe.name: job for job in [*plan.trainings, *plan.timed]}
    rows = []
    for job in known.values():
        recipe, train = job.recipe, job.recipe.config(job.seed).train
        name = next((s.name for s in plan.study.sources if s.file == recipe.data), recipe.data)
        found = find_recipe(plan.study.configs, name, recipe.model)
        own = ", ".join(f"{key}={_word(value)}" for key, value in recipe.settings.items())
        origin = "the model's defaults" if found is None else f"{found.file}.json"
        told = f"batches of {train.batch_size}"
        if model_class(recipe.model).learns:
            told = f"lr {train.lr:g}, {told}, at most {train.epochs} epochs"
        rows.append((name, recipe.model, recipe.variant, own or "none", told, origin))
    inner = _rows(["stream", "model", "variant", "settings", "training", "from"], rows)
    return f"<details><summary>{len(rows):,} recipes</summary>{inner}</details>" if rows else ""


def _word(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _runs(plan: Plan) -> str:
    rows: list[Sequence[object]] = []
    for job in [*plan.trainings, *plan.timed]:
        if job.done:
            epochs = _metrics(job)["epochs"]
            seconds = sum(epoch["train_seconds"] for epoch in epochs)
            rows.append((job.folder.name, len(epochs), f"{seconds:,.0f} s", _metrics(job)["hardware"]))
        else:
            rows.append((job.folder.name, "not done", "", ""))
    inner = _rows(["run", "epochs", "training", "hardware"], rows)
    return f"<details><summary>{len(rows):,} runs</summary>{inner}</details>" if rows else ""


STYLE = """
:root{color-scheme:light dark;--ink:#1f2933;--soft:#616e7c;--grid:#e4e7eb;--card:#fff;--ground:#f5f6f8;
--accent:#2f5d8a;--up:#1d7a4f;--down:#c0392b;--upbg:#e3f4ea;--downbg:#fbe6e3;--warn:#fff3d6;--warnink:#7a4d00}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaee;--soft:#9aa7b4;--grid:#323b45;--card:#1b2128;
--ground:#12161b;--accent:#7fb2e5;--up:#5fd39a;--down:#ff8d80;--upbg:#153326;--downbg:#3d1f1d;--warn:#3b2e10;
--warnink:#ffd98a}}
*{box-sizing:border-box}html{scroll-behavior:smooth}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.6 system-ui,"Segoe UI",Helvetica,Arial,
sans-serif;display:grid;grid-template-columns:14rem minmax(0,1fr)}
nav{position:sticky;top:0;align-self:start;height:100vh;overflow:auto;padding:2rem 1.25rem;
border-right:1px solid var(--grid);font-size:.88rem}
nav ol{list-style:none;margin:1rem 0 0;padding:0}nav li{margin:.35rem 0}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
main{padding:2.5rem clamp(1rem,2.5vw,4rem);max-width:80rem}
h1{font-size:2rem;line-height:1.2;margin:0 0 .75rem;letter-spacing:-.02em}
h2{font-size:1.35rem;margin:0 0 1rem;letter-spacing:-.01em}
section{background:var(--card);border:1px solid var(--grid);border-radius:12px;padding:1.5rem 1.75rem;
margin:1.5rem 0;scroll-margin-top:1rem}
.facts{list-style:none;display:flex;flex-wrap:wrap;gap:.5rem;margin:0;padding:0;font-size:.85rem}
.facts li{border:1px solid var(--grid);background:var(--card);border-radius:99px;padding:.15rem .8rem}
.warning{background:var(--warn);color:var(--warnink);border-radius:8px;padding:.6rem 1rem;font-weight:600}
.tag{background:var(--warn);color:var(--warnink);border-radius:6px;padding:.1rem .5rem;font-size:.7rem;
vertical-align:middle;letter-spacing:.05em}
.grids{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(31rem,100%),1fr));gap:0 2rem}
.wide{overflow-x:auto;margin:0 0 1.25rem}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;min-width:50%}
caption{text-align:left;font-weight:600;padding:.25rem 0 .5rem}
th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
thead th{color:var(--soft);font-weight:600;border-bottom:2px solid var(--grid)}
th:first-child{text-align:left;position:sticky;left:0;background:var(--card)}
tbody th{font-weight:500}tbody tr:hover td{background:var(--ground)}
.section th{color:var(--accent);font-weight:600;padding-top:.9rem;font-size:.82rem;letter-spacing:.03em}
.words th,.words td{text-align:left}.words td{white-space:normal}
.words td:is(.up,.down,.even){white-space:nowrap}
.best{font-weight:700}.paper{color:var(--soft)}
.up{color:var(--up);background:var(--upbg)}.down{color:var(--down);background:var(--downbg)}.even{color:var(--soft)}
.notes{color:var(--soft);font-size:.88rem;padding-left:1.1rem;margin:.5rem 0 0}
figure{margin:0 0 1.5rem}figure svg{width:100%;height:auto;overflow:visible}
summary{cursor:pointer;color:var(--accent)}
@media (max-width:60rem){body{display:block}nav{position:static;height:auto;border:0;padding-bottom:0}}
@media print{nav{display:none}body{display:block;background:#fff}section{break-inside:avoid}}
"""
