"""Ids of a live graph that were mistyped."""

from __future__ import annotations

import numpy as np
import pytest

from contig.data.events import EventStream
from contig.errors import UnknownNodeError
from contig.live.ids import NodeIndex


def index_of(sources: list[str] | list[int]) -> NodeIndex:
    n = np.arange(len(sources))
    return NodeIndex(EventStream.from_arrays(sources, [sources[0]] * len(sources), n).ids)


@pytest.mark.parametrize(
    ("given", "hint"),
    [("user-177", "'user-17'"), ("anna-mari", "'anna-maria'"), ("shop", None), ("x", None), ("", None)],
)
def test_similar_ids_are_suggested(given: str, hint: str | None) -> None:
    index = index_of([*(f"user-{i}" for i in range(40)), "anna-maria", "berta"])
    index.add("anna-marie", dst=False)
    with pytest.raises(UnknownNodeError, match="is not known: no event has named it") as raised:
        index.find(given)
    assert ("Did you mean" in str(raised.value)) is (hint is not None)
    assert (hint or "") in str(raised.value)


def test_long_ids_get_a_short_message_without_suggestions() -> None:
    index = index_of(["a" * 200, "berta"])
    with pytest.raises(
        UnknownNodeError, match=r"^Node 'a{99}\.\.\. \(203 characters\) is not known.*named it\.$"
    ):
        index.find("a" * 201)


def test_nodes_of_later_events_are_not_suggested() -> None:
    index = index_of(["anna-maria", "berta"])
    index.add("anna-marie", dst=False)
    with pytest.raises(UnknownNodeError) as raised:
        index.find("anna-mari", below=2)
    assert "'anna-maria'?" in str(raised.value)
    assert "anna-marie" not in str(raised.value)


def test_numbers_have_no_similar_ones() -> None:
    with pytest.raises(UnknownNodeError, match=r"Node '12x' is not known: no event has named it\.$"):
        index_of([12, 13]).find("12x")
