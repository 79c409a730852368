"""What earlier calls reproduced in the same folder: a report shows it, too.

``items.json`` has the choices by which each table or figure was last reproduced. Its runs are still there, so
that its numbers are read again, with nothing to train.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from contig.errors import ContigError
from contig.experiments.recipe_files import packaged_folder
from contig.files import write_json
from contig.reproduction import items
from contig.reproduction.datasets import StudyDataset, open_dataset
from contig.reproduction.plan import Plan, make_plan
from contig.reproduction.study import Study
from contig.schema import Json, Record, decode, encode, read_versioned

FILE, SCHEMA = "items.json", 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices(Record):
    """How an item was reproduced: everything on the command line that its numbers depend on."""

    datasets: tuple[str, ...]
    models: tuple[str, ...]
    seeds: int
    quick: bool
    configs: str | None  # None: those of the package
    any_numerics: bool
    every_dataset: bool

    @classmethod
    def of(cls, study: Study, datasets: Sequence[str]) -> Choices:
        return cls(
            datasets=tuple(datasets),
            models=study.models,
            seeds=study.seeds,
            quick=study.scale.quick,
            configs=None if study.configs == packaged_folder() else str(study.configs.resolve()),
            any_numerics=study.any_numerics,
            every_dataset=study.every_dataset,
        )

    def differs_in_datasets(self, other: Choices) -> bool:
        """Return whether nothing but the datasets differs."""
        return replace(self, datasets=other.datasets) == other


def record(plan: Plan, datasets: Sequence[str]) -> None:
    """Record how the items of a plan were reproduced, for later calls."""
    study = plan.study
    known = _all_choices(study, _names(datasets))
    write_json(study.out / FILE, {"schema": SCHEMA, "items": encode(known)})


def _all_choices(study: Study, datasets: Sequence[str]) -> dict[str, Choices]:
    """Return the choices of all items in the folder of a study, those of the study included.

    An item that was reproduced on other datasets, by the same choices otherwise, keeps those.
    """
    known, now = _read(study.out / FILE), Choices.of(study, datasets)
    for item in study.items:
        before = known.get(item.name)
        merged = now
        if before is not None and before.differs_in_datasets(now):
            merged = replace(now, datasets=tuple(dict.fromkeys([*before.datasets, *now.datasets])))
        known[item.name] = merged
    return known


def _names(datasets: Sequence[str]) -> list[str]:
    return [str(Path(name).resolve()) if Path(name).is_file() else name for name in datasets]


def with_earlier(plan: Plan, datasets: Sequence[str]) -> tuple[Plan, list[str]]:
    """Add to a plan what earlier calls reproduced, and say what had to be left out and why.

    ``datasets`` are the names or files of the plan's datasets.
    """
    study, names = plan.study, _names(datasets)
    opened = dict(zip(names, study.datasets, strict=True))
    now = Choices.of(study, names)
    others, groups, failed = {}, dict(plan.groups), _Failures()
    for name, choices in _all_choices(study, names).items():
        if choices.quick != study.scale.quick or (name in groups and choices == now):
            continue
        try:
            own = _study(choices, name, study, opened, failed)
            groups[name] = make_plan(own).groups[name]
        except ContigError as error:
            failed.items.setdefault(str(error), []).append(name)
        else:
            others[name] = own
    chosen = items.choose_items(list(groups), study.scale.quick)
    models = dict.fromkeys(model for one in (study, *others.values()) for model in one.models)
    whole = replace(study, items=chosen, datasets=tuple(opened.values()), models=tuple(models))
    return Plan(whole, groups, others), failed.notices()


@dataclass(frozen=True)
class _Failures:
    """What cannot be read again: datasets, each tried once, and the items that need them, by the error."""

    datasets: dict[str, ContigError] = field(default_factory=dict)
    items: dict[str, list[str]] = field(default_factory=dict)

    def notices(self) -> list[str]:
        return [
            f"the report leaves out results of {', '.join(names)} recorded in {FILE}: {error}"
            for error, names in self.items.items()
        ]


def _study(
    choices: Choices, item: str, study: Study, opened: dict[str, StudyDataset], failed: _Failures
) -> Study:
    """Return the study by which an item was reproduced; its datasets are added to ``opened``."""
    for name in choices.datasets:
        if name in failed.datasets:
            raise failed.datasets[name]
        if name not in opened:
            try:
                opened[name] = open_dataset(name, study.scale.events, study.out / "data")
            except ContigError as error:
                failed.datasets[name] = error
                raise
    return replace(
        study,
        items=items.choose_items([item], choices.quick),
        datasets=tuple(opened[name] for name in choices.datasets),
        models=choices.models,
        seeds=choices.seeds,
        configs=packaged_folder() if choices.configs is None else Path(choices.configs),
        any_numerics=choices.any_numerics,
        every_dataset=choices.every_dataset,
    )


def _read(path: Path) -> dict[str, Choices]:
    if not path.exists():
        return {}
    cure = "Delete it: the report then shows only what the next call reproduces."
    content: Json = read_versioned(path, SCHEMA, lambda older: older, cure)
    return decode(dict[str, Choices], content.get("items"), path, cure)
