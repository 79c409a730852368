"""The tasks by name."""

from __future__ import annotations

import pytest
from support.problems import case, random_stream, shape_of

from contig.data.splits import chronological_split
from contig.errors import ConfigError
from contig.history import History
from contig.tasks import TASKS, link, measure
from contig.tasks.setting import Setting


@pytest.fixture
def setting() -> Setting:
    stream = random_stream(3, events=80)
    model, history = case("recency", shape_of(stream)), History.from_stream(stream)
    return Setting(model, model.new_state(9), history, stream, chronological_split(stream), 10)


def test_a_task_is_found_by_its_name(setting: Setting) -> None:
    assert measure("link", setting, negatives="historical") == link.measure(setting, "historical")


def test_what_is_not_known_is_told(setting: Setting) -> None:
    with pytest.raises(
        ConfigError, match=f"'links'.* Did you mean 'link'.* Known: {', '.join(sorted(TASKS))}"
    ):
        measure("links", setting)
    with pytest.raises(ConfigError, match=r"option of the task recommend 'candidate'.*'candidates'"):
        measure("recommend", setting, candidate=3)
    with pytest.raises(ConfigError, match="option of the task classify 'negatives'"):
        measure("classify", setting, negatives="random")
