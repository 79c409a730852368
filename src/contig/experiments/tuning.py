"""Tuning: choose settings by the validation events, with Optuna.

A study is kept in ``study.log`` of its folder, and every trial is a run in ``runs``: repeating the command
continues an interrupted study and reuses finished runs. Other settings, values, events or numerics make
another study in the same folder, which reuses the runs that are the same.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contig import numerics
from contig.errors import ConfigError
from contig.experiments.identity import KEY_DIGITS
from contig.experiments.jobs import Job, plan
from contig.experiments.recipes import Recipe
from contig.files import write_json, write_text
from contig.models import model_class
from contig.runs.options import MONITORS, PROTOCOL_OPTIONS, Monitor
from contig.wording import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = int | float | str
SEED = 0  # of the search, and of every run


@dataclass(frozen=True)
class Choices:
    """Values to choose from."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Range:
    """A range of numbers; on a logarithmic scale if its end is at least ten times its start."""

    name: str
    low: float
    high: float

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def log(self) -> bool:
        return self.low > 0 and self.high >= 10 * self.low


Parameter = Choices | Range


@dataclass(frozen=True)
class Trial:
    """A finished trial: its settings, and the best value of the monitored metric in its run."""

    number: int
    settings: dict[str, Value]
    value: float
    folder: str


def parse_grid(texts: Sequence[str]) -> list[Parameter]:
    """Parse ``lr=1e-4,3e-4`` (values) and ``lr=1e-5..1e-2`` (a range)."""
    parameters = [_parse(text) for text in texts]
    names = [one.name for one in parameters]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--grid {twice[0]} is given twice; list all of its values once.")
    return parameters


def check_tunable(recipe: Recipe, grid: Sequence[Parameter]) -> None:
    """Reject a recipe without validation, and a grid over settings whose trials cannot be compared."""
    if not model_class(recipe.model).learns:
        raise ConfigError(f"{recipe.model} is a heuristic and has nothing to tune; use another model.")
    if recipe.config(SEED).train.final:
        raise ConfigError("final=true leaves no validation events to choose by; leave it out.")
    for one in grid:
        if one.name in (*PROTOCOL_OPTIONS, "seed", "monitor"):
            raise ConfigError(
                f"--grid {one.name}: trials with different values are evaluated differently and cannot be "
                f"compared; fix it with --set {one.name}=VALUE."
            )


def _parse(text: str) -> Parameter:
    name, equals, given = text.partition("=")
    if not (name and equals and given.strip()):
        raise ConfigError(f"--grid {text}: expected KEY=VALUE,VALUE or KEY=LOW..HIGH, such as lr=1e-4,3e-4.")
    low, dots, high = given.partition("..")
    if not dots:
        return Choices(name, tuple(dict.fromkeys(_value(one) for one in given.split(","))))
    ends = _value(low), _value(high)
    if any(isinstance(end, str) for end in ends) or not ends[0] < ends[1]:  # type: ignore[operator]
        raise ConfigError(f"--grid {text}: expected two numbers, the smaller one first.")
    return Range(name, *ends)  # type: ignore[arg-type]


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()


def grid_values(grid: Sequence[Parameter]) -> dict[str, tuple[Value, ...]] | None:
    """Return every parameter's values; None if there is a range."""
    found = {one.name: one.values for one in grid if isinstance(one, Choices)}
    return found if len(found) == len(grid) else None


def combinations(values: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    """Yield every combination of the values, in a fixed order."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def grid_jobs(recipe: Recipe, grid: Sequence[Parameter], trials: int, out: Path) -> list[Job]:
    """Return the jobs of a grid that is tried completely; a study in ``out`` uses their runs.

    A search cannot be planned: what it tries depends on earlier results.
    """
    values = grid_values(grid)
    if values is None:
        raise ConfigError(
            "--part cannot divide the search of a range; list its values, such as lr=1e-4,1e-3."
        )
    if (size := math.prod(map(len, values.values()))) > trials:
        raise ConfigError(f"--part divides a grid that is tried completely; this one needs --trials {size}.")
    return [trial_job(recipe, settings, out) for settings in combinations(values)]


def trial_job(recipe: Recipe, settings: Mapping[str, Value], out: Path) -> Job:
    """Return the job that trains a recipe with the settings of a trial."""
    (job,) = plan([replace(recipe, settings={**recipe.settings, **settings})], 1, out / "runs")
    return job


class Study:
    """The trials of a recipe, kept in a folder."""

    def __init__(self, recipe: Recipe, grid: Sequence[Parameter], out: Path) -> None:
        check_tunable(recipe, grid)
        self.recipe, self.grid, self.out = recipe, tuple(grid), out
        out.mkdir(parents=True, exist_ok=True)
        self._optuna = _optuna()
        self._study = self._load()
        self._discard_unfinished()

    def _discard_unfinished(self) -> None:
        """Forget the trials that a killed command left, those that were only planned included."""
        states = self._optuna.trial.TrialState
        for trial in self._study.trials:
            if trial.state == states.WAITING:
                self._study.ask()  # takes the first that waits: only a started trial can be ended
        for trial in self._study.trials:
            if not trial.state.is_finished():
                self._study.tell(trial.number, state=states.FAIL)

    @property
    def name(self) -> str:
        """The recipe, followed by a checksum of all that decides what is tried and how it is measured."""
        recipe = self.recipe
        config = recipe.config(SEED).as_dict()
        grid = sorted(repr(one) for one in self.grid)
        content = json.dumps([config, recipe.fingerprint, grid, numerics.VERSION], sort_keys=True)
        return f"{recipe.name}-{hashlib.sha256(content.encode()).hexdigest()[:KEY_DIGITS]}"

    @property
    def monitor(self) -> Monitor:
        """The option ``monitor`` of the recipe, which chooses epochs and trials alike."""
        return self.recipe.config(SEED).train.monitor

    @property
    def metric(self) -> str:
        """The metric of a trial, in words."""
        return f"validation {MONITORS[self.monitor]}"

    def _load(self) -> Any:
        storages = self._optuna.storages
        backend = storages.journal.JournalFileBackend(str(self.out / "study.log"))
        return self._optuna.create_study(
            study_name=self.name,
            storage=storages.JournalStorage(backend),
            direction="maximize",
            load_if_exists=True,
            sampler=self._optuna.samplers.TPESampler(seed=SEED),
        )

    def _untried(self) -> Iterator[dict[str, Value]]:
        """Yield the combinations of a grid that no finished trial has."""
        tried = [one.settings for one in self.trials()]
        return (settings for settings in combinations(grid_values(self.grid) or {}) if settings not in tried)

    @property
    def size(self) -> float:
        """The number of combinations, infinite if there is a range."""
        values = grid_values(self.grid)
        return math.inf if values is None else math.prod(map(len, values.values()))

    @property
    def finished(self) -> int:
        return len(self.trials())

    def ask(self, count: int, *, every: bool = False) -> dict[int, Job]:
        """Return the jobs of the next trials by their numbers.

        ``every`` takes the combinations of a grid one after the other instead of searching.
        """
        if every:
            for settings in itertools.islice(self._untried(), count):
                self._study.enqueue_trial(settings)
        asked = [self._study.ask() for _ in range(count)]
        return {trial.number: self._job(self._suggested(trial)) for trial in asked}

    def _suggested(self, trial: Any) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for one in self.grid:
            if isinstance(one, Choices):
                found[one.name] = trial.suggest_categorical(one.name, list(one.values))
            elif one.whole:
                found[one.name] = trial.suggest_int(one.name, int(one.low), int(one.high), log=one.log)
            else:
                found[one.name] = trial.suggest_float(one.name, one.low, one.high, log=one.log)
        return found

    def _job(self, settings: Mapping[str, Value]) -> Job:
        return trial_job(self.recipe, settings, self.out)

    def tell(self, jobs: Mapping[int, Job]) -> list[Job]:
        """Record the results of jobs that have run, and return those without a validation metric."""
        failed, without = self._optuna.trial.TrialState.FAIL, []
        for number, job in jobs.items():
            value = best_validation(job) if job.done else math.nan
            if math.isnan(value):
                self._study.tell(number, state=failed)
                without.append(job)
            else:
                self._study.tell(number, value)
        return without

    def trials(self) -> list[Trial]:
        """Return the trials that have finished, in their order."""
        complete = self._optuna.trial.TrialState.COMPLETE
        return [
            Trial(one.number, dict(one.params), float(one.value), self._job(one.params).folder.name)
            for one in self._study.trials
            if one.state == complete
        ]

    def best(self) -> Trial:
        """Return the trial with the best value."""
        found = self.trials()
        if not found:
            raise ConfigError(f"{self.out}: no trial has finished.")
        return max(found, key=lambda one: one.value)

    def best_recipe(self) -> dict[str, Any]:
        """Return the recipe with the settings of the best trial, as plain values."""
        content: dict[str, Any] = {"data": self.recipe.data, "model": self.recipe.model}
        content["settings"] = {**self.recipe.settings, **self.best().settings}
        reading = self.recipe.reading.as_dict()
        return content | ({"reading": reading} if reading else {})


def best_validation(job: Job) -> float:
    """Return the best value of the metric that a finished run monitored on its validation events."""
    monitor = job.recipe.config(SEED).train.monitor
    return max((epoch.metric(monitor) for epoch in job.metrics().epochs), default=math.nan)


def save(study: Study) -> None:
    """Write ``tune.csv``, ``tune.png`` and ``best.json`` to the study's folder."""
    from contig import plots

    trials = study.trials()
    write_text(study.out / "tune.csv", _as_csv(trials, [one.name for one in study.grid], study.monitor))
    write_json(study.out / "best.json", study.best_recipe())
    plots.save(draw(study, trials), study.out / "tune.png")


def _as_csv(trials: Iterable[Trial], names: Sequence[str], monitor: Monitor) -> str:
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["trial", *names, f"val_{monitor.replace('-', '_')}", "run"])
    for one in trials:
        writer.writerow([one.number, *(one.settings[name] for name in names), one.value, one.folder])
    return file.getvalue()


def draw(study: Study, trials: Sequence[Trial]) -> Figure:
    """Draw the metric of every trial, in order and against each parameter."""
    from contig import plots

    recipe, label = study.recipe, f"{study.metric}, %"
    values = [100 * one.value for one in trials]
    missing = [math.nan] * len(trials)
    best = [max(values[: i + 1]) for i in range(len(values))]
    numbers = [float(one.number + 1) for one in trials]
    order = plots.Panel(
        "In order",
        [
            plots.Curve("best so far", numbers, best, missing, quiet=True, dashed=True, marks=False),
            plots.Curve("trial", numbers, values, missing),
        ],
        "trial",
        label,
    )
    panels = [order, *(_against(one, trials, label) for one in study.grid)]
    return plots.curves(
        f"{recipe.model} on {Path(recipe.data).name}", [f"{counted(len(trials), 'trial')}, one seed"], panels
    )


def _against(parameter: Parameter, trials: Sequence[Trial], label: str) -> Any:
    from contig import plots

    if isinstance(parameter, Choices):
        ticks = [str(value) for value in parameter.values]
        points = [(float(ticks.index(str(one.settings[parameter.name]))), one.value) for one in trials]
        log = False
    else:
        ticks = []
        points = [(float(one.settings[parameter.name]), one.value) for one in trials]
        log = parameter.log
    points.sort()
    x, y = [a for a, _ in points], [100 * b for _, b in points]
    curve = plots.Curve("trial", x, y, [math.nan] * len(x), line=False)
    return plots.Panel(parameter.name, [curve], parameter.name, label, ticks, log_x=log)


def _optuna() -> Any:
    try:
        import optuna
        import optuna.storages.journal
    except ImportError as error:
        raise ConfigError(
            "Tuning needs Optuna: pip install 'contig[tune]', or pip install optuna."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
