"""Fig. 5: sensitivity to the model's options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from contig.data.splits import chronological_split
from contig.experiments.recipes import Recipe
from contig.experiments.rows import Row, Spread, collect
from contig.plots import Curve, Marked, Panel, curves
from contig.reproduction.claims import UNJUDGED, Claim
from contig.reproduction.datasets import StudyDataset
from contig.reproduction.items.base import Group
from contig.reproduction.items.drawing import error_bar_ends, y_limits
from contig.reproduction.items.notes import NO_NUMBERS, claim_note, inductive_note, listed, seeds_note
from contig.reproduction.items.variants import VariantItem, changed
from contig.reproduction.paper import COMPARABLE, paper
from contig.reproduction.stats import percent
from contig.reproduction.study import Study
from contig.reproduction.tables.numbers import Grid, Line, Table, Value
from contig.reproduction.verdicts import Verdict, every, higher

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = Mapping[str, tuple[float, ...]]  # of each option
SYMBOLS = {"horizon": "T", "neighbors": "k", "heads": "heads", "dim": "d", "time_dim": "d_T"}
MEANINGS = {
    "horizon": "end of the ODE (horizon)",
    "neighbors": "number of neighbors in the attention",
    "heads": "number of its heads",
    "dim": "width of embeddings (dim)",
    "time_dim": "width of the time encoding (time_dim)",
}
FALLING = ("horizon", "neighbors")  # options whose AP falls again, according to the paper
FULL_VALUES: Values = {
    "horizon": (0.6, 0.8, 1.0, 1.2, 1.4, 1.6),
    "neighbors": (5, 10, 15, 20, 25),
    "heads": (1, 2, 4),
    "dim": (16, 64, 128, 172, 256),
    "time_dim": (16, 64, 128, 172, 256),
}
QUICK_VALUES: Values = {
    "horizon": (0.6, 1.0, 1.6),
    "neighbors": (2, 5, 10),
    "heads": (1, 2, 4),
    "dim": (8, 32, 64),
    "time_dim": (8, 32, 64),
}


@dataclass(frozen=True)
class Fig5(VariantItem):
    """AP of the paper's model as one option at a time varies.

    Its many runs are compared only with one another, so they may be shorter than those of Table 2.
    """

    name = "fig5"
    title = "Fig. 5: sensitivity to the options"

    values: Values = field(default_factory=lambda: FULL_VALUES)
    settings: Mapping[str, Any] = field(default_factory=lambda: {"compile": "on"})
    # Many runs side by side on one GPU repay compiling sooner than compile=auto expects.
    events: int | None = 800_000  # a run trains on about this many, counting every epoch
    datasets_at_most: int | None = None

    def quick(self) -> Self:
        return replace(self, values=QUICK_VALUES, settings={}, events=None, datasets_at_most=1)

    def plan(self, study: Study) -> list[Group]:
        datasets = self.datasets(study)[: self.datasets_at_most]
        return [group for dataset in datasets for group in self._groups(study, dataset)]

    def _groups(self, study: Study, dataset: StudyDataset) -> Iterator[Group]:
        own, most = study.base_recipe(dataset), 0
        base = replace(own, settings={**own.settings, **self.settings})
        if self.events is not None:
            per_epoch = max(1, len(chronological_split(dataset.stream).train))
            epochs = min(max(1, round(self.events / per_epoch)), base.config(0).train.epochs)
            base, most = replace(base, settings={**base.settings, "epochs": epochs}), epochs * per_epoch
        for option, values in self.values.items():
            yield Group(dataset.name, study.jobs(_sweep(base, option, values)), (), option, most)

    def grids(self, groups: Sequence[Group]) -> Iterator[Grid]:
        columns = tuple(f"AP {section}" for section in COMPARABLE)
        for dataset, most in _training_events(groups).items():
            lines = [
                _line(row, group.series)
                for group in groups
                if group.dataset == dataset
                for row in collect(group.jobs)
            ]
            condition = f"at most {most:,} training events" if most else ""
            yield Grid(dataset, "value", columns, tuple(lines), rank=True, condition=condition)

    def notes(self, study: Study, groups: Sequence[Group]) -> list[str]:
        notes = ["AP in %, averaged over batches.", inductive_note(), seeds_note(groups), NO_NUMBERS]
        limits = _training_events(groups).items()
        if counts := [f"{most:,} events on {dataset}" for dataset, most in limits if most]:
            notes.append(
                f"A run trains on at most {listed(counts)}, counting every epoch, and negatives are never "
                "true events: compare these numbers with one another, not with Table 2."
            )
        return [*notes, claim_note(self.name)]

    def legend(self) -> list[str]:
        return [f"{'; '.join(f'{SYMBOLS[option]} is the {what}' for option, what in MEANINGS.items())}."]

    def draw(self, table: Table, title: str, facts: Sequence[str]) -> Figure | None:
        """Draw a row of panels for each dataset, with one y axis; one without results keeps its place."""
        panels = [_panel(grid, option) for grid in table.grids for option in SYMBOLS]
        return curves(title, facts, panels, len(SYMBOLS)) if panels else None

    def claims(self, table: Table) -> Iterator[Claim]:
        for grid in self.shown_grids(table):
            yield from _claims(grid, ", ".join(filter(None, (grid.title, "transductive", grid.condition))))


def _training_events(groups: Sequence[Group]) -> dict[str, int]:
    """Return on how many events a run trains at most, by dataset; 0 if they are not limited."""
    return {group.dataset: group.training_events for group in groups}


def _sweep(base: Recipe, option: str, values: Sequence[float]) -> list[Recipe]:
    """Vary one option; the recipe's own value is always among those tried."""
    own = _value_of(base, option)
    return [changed(base, f"{option} {value:g}", **{option: value}) for value in sorted({*values, own})]


def _value_of(recipe: Recipe, option: str) -> float:
    value: float = getattr(recipe.config(0).model_options, option)
    return value


def _line(row: Row, option: str) -> Line:
    values = tuple(Value(percent(row.selection(s).ap), seeds=row.seeds) for s in COMPARABLE.values())
    return Line(_label(option, _value_of(row.recipe, option)), values, option)


def _label(option: str, value: float) -> str:
    return f"{SYMBOLS[option]} = {value:g}"


def _panel(grid: Grid, option: str) -> Panel:
    lines, symbol = grid.section(option), SYMBOLS[option]
    x = [float(line.label.rpartition(" ")[2]) for line in lines]
    drawn = []
    for column, section in enumerate(COMPARABLE if lines else ()):
        found = [line.values[column].ours for line in lines]
        mean, std = [s.mean for s in found], [s.std for s in found]
        drawn.append(Curve(section, x, mean, std, on_top=column > 0, dashed=column > 0))
    chosen = paper().settings[option]
    marked = Marked(chosen, "the paper's value") if chosen in x else None
    ends = error_bar_ends(value.ours for line in grid.lines for value in line.values)
    limits = y_limits(min(ends), max(ends)) if ends else None
    return Panel(f"{grid.title}: {symbol}", drawn, symbol, "AP, %", y_limits=limits, marked=marked)


# --- claims ------------------------------------------------------------------------------------------


class _Curve:
    """The transductive APs of one option by its values, the paper's value among them."""

    def __init__(self, grid: Grid, option: str) -> None:
        self.option, self.symbol = option, SYMBOLS[option]
        self.aps = {label: values[0].ours for label, values in grid.models(option).items()}
        self.chosen = _label(option, paper().settings[option])

    @property
    def usable(self) -> bool:
        return self.chosen in self.aps and len(self.aps) > 1

    @property
    def best(self) -> Spread:
        """AP at the paper's value."""
        return self.aps[self.chosen]

    def verdicts(self) -> dict[str, Verdict]:
        """Judge for every other value that AP at the paper's is higher."""
        return {label: higher(self.best, ap) for label, ap in self.aps.items() if label != self.chosen}

    def end(self, place: int) -> dict[str, tuple[Spread, Spread]]:
        """Return AP at the paper's value and at the first (0) or last (-1) one, unless they are the same."""
        label = list(self.aps)[place]
        return {} if label == self.chosen else {self.symbol: (self.best, self.aps[label])}


def _claims(grid: Grid, where: str) -> Iterator[Claim]:
    """Judge that the paper's values are the best, and the shape of the curves by their ends."""
    swept = [curve for curve in (_Curve(grid, option) for option in SYMBOLS) if curve.usable]
    if swept:
        yield _optimal(where, swept)
    rises = {key: pair for curve in swept for key, pair in curve.end(0).items()}
    falls = {key: pair for c in swept if c.option in FALLING for key, pair in c.end(-1).items()}
    yield from _slope("Fig. 5: AP rises up to the paper's value", where, rises)
    yield from _slope("Fig. 5: AP falls beyond the paper's value", where, falls)


def _optimal(where: str, swept: Sequence[_Curve]) -> Claim:
    """Judge that every other value is worse; values that are as good leave the claim undecided."""
    verdicts = {label: verdict for curve in swept for label, verdict in curve.verdicts().items()}
    verdict = every(verdicts.values())
    better = [label for label, one in verdicts.items() if one is Verdict.FAILS]
    worse = [label for label, one in verdicts.items() if one is Verdict.HOLDS]
    counted = f"none is better, {len(worse)} of {len(verdicts)} are worse"
    ours = f"better: {', '.join(better)}" if better else counted
    return Claim(
        "Fig. 5: the paper's values are better than all others",
        where,
        ", ".join(curve.chosen for curve in swept),
        UNJUDGED if verdict is Verdict.ONE_SEED else ours,
        Verdict.OPEN if verdict is Verdict.PARTLY else verdict,
    )


def _slope(text: str, where: str, pairs: Mapping[str, tuple[Spread, Spread]]) -> Iterator[Claim]:
    """Judge that AP is higher at the paper's value than at an end of the curve, for each option."""
    verdicts = {symbol: higher(*pair) for symbol, pair in pairs.items()}
    if verdicts:
        verdict = every(verdicts.values())
        seen = ", ".join(symbol for symbol, one in verdicts.items() if one is Verdict.HOLDS) or "none"
        ours = UNJUDGED if verdict is Verdict.ONE_SEED else seen
        yield Claim(text, where, ", ".join(verdicts), ours, verdict)
