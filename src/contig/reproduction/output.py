"""Write the results of a study: tables, figures, the protocol and the report."""

from __future__ import annotations

from collections.abc import Sequence

from contig import plots
from contig.experiments.training_settings import LEDGER_NOTE
from contig.files import write_text
from contig.reproduction.claims import Claim, claims_sheet
from contig.reproduction.plan import Plan
from contig.reproduction.protocol import model_differences, protocol_page
from contig.reproduction.report import hardware, report
from contig.reproduction.tables import FORMATS
from contig.reproduction.tables.layout import Sheet
from contig.reproduction.tables.numbers import Table

PICTURES = ("png", "svg")


def write_results(plan: Plan, failures: Sequence[str] = ()) -> list[Sheet]:
    """Write everything to the study's folder from the saved results; return the tables, the claims last."""
    tables, out = plan.tables(), plan.study.out
    claims = judge(plan, tables)
    sheets = [*(table.sheet() for table in tables), claims]
    for sheet in sheets:
        for extension, render in FORMATS.items():
            write_text(out / f"{sheet.name}.{extension}", render(sheet))
    machines = hardware(plan)
    figures = {table.name: svg for table in tables if (svg := _write_figure(plan, table, machines))}
    write_text(out / "protocol.md", protocol_page(plan))
    write_text(out / "report.html", report(plan, tables, claims, figures, failures))
    return sheets


def judge(plan: Plan, tables: Sequence[Table]) -> Sheet:
    """Judge every claim that the tables have the numbers for."""
    claims: list[Claim] = []
    legend: list[str] = []
    for table in tables:
        item = plan.study.item(table.name)
        if found := list(item.claims(table)):
            claims += found
            legend += [f"{item.title.partition(':')[0]}: {line}" for line in item.legend()]
    notes = (*model_differences(plan), LEDGER_NOTE, *legend)
    return claims_sheet(claims, notes, plan.study.scale.warning)


def _write_figure(plan: Plan, table: Table, machines: Sequence[str]) -> str:
    """Write the figure of a table; return it without its heading as an ``svg`` element, if there is one."""
    item = plan.study.item(table.name)
    paths = [plan.study.out / f"{table.name}.{extension}" for extension in PICTURES]
    drawn = item.figure(table, [item.error_bars(plan.groups[table.name]), *machines])
    bare = item.figure(table)
    if drawn is None or bare is None:
        for path in paths:
            path.unlink(missing_ok=True)  # an outdated one
        return ""
    for path in paths:
        plots.save(drawn, path)
    return plots.inline_svg(bare, table.name)
