"""Checks that every model must pass, for models of this package and of others.

``check_model`` runs them all::

    from contig.testing import check_model

    check_model(MyModel, settings={"dim": 6})

To see each check as a test of its own, parametrize over ``CHECKS``::

    from contig.testing import CHECKS, ModelCase

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_model(check):
        check(ModelCase(MyModel, {"dim": 6}))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from contig.errors import ConfigError, unknown
from contig.models import Model
from contig.options import set_options
from contig.testing import contract
from contig.testing.cases import ModelCase
from contig.testing.causality import check_future_changes_nothing
from contig.testing.training import check_training_resumes

Check = Callable[[ModelCase], None]

DEPARTURES = ("joint_queries", "identifies_nodes", "frozen", "own_link")  # fields of ``ModelCase``

CHECKS: tuple[Check, ...] = (
    contract.check_builds_for_any_data,
    contract.check_trainable_parameters,
    contract.check_reading_changes_nothing,
    contract.check_link_scores_embeddings,
    contract.check_rank_agrees_with_link,
    contract.check_query_order_does_not_matter,
    contract.check_no_queries,
    contract.check_empty_history,
    contract.check_observing_changes_only_the_state,
    contract.check_observing_changes_declared_rows,
    contract.check_observing_nothing,
    contract.check_training_mode_does_not_reach_the_state,
    contract.check_padded_batches,
    contract.check_live_events,
    contract.check_events_in_pieces,
    contract.check_saved_and_loaded,
    contract.check_unseen_nodes,
    contract.check_new_node_takes_part,
    check_future_changes_nothing,
    check_training_resumes,
)


def check_model(
    model: str | type[Model], settings: Mapping[str, Any] | None = None, **departures: bool
) -> None:
    """Run every check on a model; raise one ``AssertionError`` that lists all that fail.

    ``settings`` are options of the model. ``departures`` are fields of ``ModelCase`` for models that mean to
    differ: ``joint_queries``, ``identifies_nodes``, ``frozen`` and ``own_link``.
    """
    if not isinstance(settings, Mapping | None):
        raise ConfigError(f"settings={settings!r}: expected options of the model by name, {{'dim': 6}} say.")
    for name in departures:
        if name not in DEPARTURES:
            raise ConfigError(unknown("departure", name, DEPARTURES))
    case = ModelCase(model, settings or {}, **departures)
    set_options(case.kind.options(), case.settings)  # a wrong option would fail every check
    failures: list[tuple[str, Exception]] = []
    for check in CHECKS:
        try:
            check(case)
        except Exception as error:  # a model under test may fail in any way
            failures.append((check.__name__, error))
    if failures:
        lines = [f"- {name}: {_described(error)}" for name, error in failures]
        total = f"{case.kind.name} fails {len(failures)} of {len(CHECKS)} checks:"
        raise AssertionError("\n".join([total, *lines])) from failures[0][1]


def _described(error: Exception) -> str:
    """Return an error as one line; the first failure is also the cause of the whole error."""
    first, _, _ = str(error).partition("\n")
    return first if isinstance(error, AssertionError) else f"{type(error).__name__}: {first}"


__all__ = ["CHECKS", "Check", "ModelCase", "check_model"]
