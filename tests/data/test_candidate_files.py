"""Candidates from the files of TGB and TGB-Seq, written here in their formats."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contig.data.candidate_files import read_candidates
from contig.data.datasets import load_dataset
from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import ConfigError, DataError

# Users 0, 3, 5 and items 0, 1, 4, 7: in TGB's files an item's id is 6 larger.
EVENTS = [(3, 0, 1.0), (0, 1, 2.0), (5, 7, 2.0), (0, 4, 5.0), (3, 1, 6.5), (3, 7, 6.5)]
CANDIDATES = {(0, 10, 5.0): [6, 7, 13], (3, 7, 6.5): [6], (3, 13, 6.5): [6, 10]}  # of the last three events


@pytest.fixture
def wiki(tmp_path: Path) -> EventStream:
    """A stream in the format of ``tgbl-wiki_edgelist_v2.csv``."""
    lines = ["user_id,item_id,timestamp,state_label,comma_separated_list_of_features"]
    lines += [f"{u},{i},{t},0,0.5,-1" for u, i, t in EVENTS]
    (tmp_path / "tgbl-wiki_edgelist_v2.csv").write_text("\n".join(lines) + "\n")
    return load_dataset("tgbl-wiki", data_dir=tmp_path, download=False)


def pickled(path: Path, content: Any, protocol: int = pickle.HIGHEST_PROTOCOL) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def as_tgb(candidates: dict[tuple[int, int, float], list[int]]) -> dict[Any, Any]:
    """As TGB writes them: keys of numpy scalars, values arrays."""
    return {
        (np.int64(s), np.int64(d), np.float64(t)): np.array(values)
        for (s, d, t), values in candidates.items()
    }


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_candidates_of_tgb(protocol: int, wiki: EventStream, tmp_path: Path) -> None:
    """Sources are numbered 0 to 2, destinations 3 to 6, in the order of their ids."""
    assert wiki.edge_features is not None
    assert wiki.edge_features.shape == (6, 2)
    path = pickled(tmp_path / "tgbl-wiki_test_ns_v2.pkl", as_tgb(CANDIDATES), protocol)
    found = read_candidates(path, wiki, np.array([3, 4, 5]))
    assert found.tolist() == [[3, 4, 6], [3, -1, -1], [3, 5, -1]]
    assert read_candidates(path, wiki, np.arange(0)).shape == (0, 0)


def test_candidates_of_tgb_seq(tmp_path: Path) -> None:
    """Node ids are those of the csv file; sources and destinations share them."""
    (tmp_path / "Flickr.csv").write_text(
        "src,dst,time,split\n1,2,10.0,0\n2,9,11.0,0\n1,9,12.0,1\n9,4,13.0,2\n1,4,14.0,2\n"
    )
    stream = read_events(tmp_path / "Flickr.csv")
    np.save(tmp_path / "Flickr_test_ns.npy", np.array([[1, 2, 9], [9, 2, 1]]))
    found = read_candidates(tmp_path / "Flickr_test_ns.npy", stream, np.array([3, 4]))
    assert stream.ids.labels[found].tolist() == [[1, 2, 9], [9, 2, 1]]
    with pytest.raises(DataError, match=r"each of the 3 test events, not int64 of shape \(2, 3\)"):
        read_candidates(tmp_path / "Flickr_test_ns.npy", stream, np.array([2, 3, 4]))


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_runs_no_code(wiki: EventStream, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for content in (Touch(trace), {(0, 10, 5.0): Touch(trace)}, {(0, 10, 5.0): np.array([Touch(trace)])}):
        path = pickled(tmp_path / "bad.pkl", content)
        with pytest.raises(DataError, match=r"bad\.pkl was not read: it refers to posix\.mkdir"):
            read_candidates(path, wiki, np.array([3]))
    assert not trace.exists()
    pickle.loads(path.read_bytes())  # elsewhere it would have
    assert trace.exists()


def test_files_that_do_not_fit_are_refused(wiki: EventStream, tmp_path: Path) -> None:
    events, path = np.array([3, 4, 5]), tmp_path / "x.pkl"
    pickled(path, as_tgb({(0, 10, 5.0): [6]}))
    with pytest.raises(DataError, match=r"no candidates for event 4 of tgbl-wiki.*\(3, 7, 6\.5\)"):
        read_candidates(path, wiki, events)
    pickled(path, as_tgb({**CANDIDATES, (3, 7, 6.5): [8]}))
    with pytest.raises(DataError, match="destination 2 is not in tgbl-wiki"):
        read_candidates(path, wiki, events)
    pickled(path, [1, 2])
    with pytest.raises(DataError, match="holds a list, not TGB's dictionary"):
        read_candidates(path, wiki, events)
    path.write_bytes(b"\x80\x05no pickle")
    with pytest.raises(DataError, match="was not read"):
        read_candidates(path, wiki, events)
    np.save(tmp_path / "x.npy", np.array([[object()]]), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        read_candidates(tmp_path / "x.npy", wiki, events)
    with pytest.raises(DataError, match="no such file"):
        read_candidates(tmp_path / "gone.pkl", wiki, events)
    (tmp_path / "x.csv").touch()
    with pytest.raises(ConfigError, match=r"a \.pkl of TGB or a \.npy of TGB-Seq"):
        read_candidates(tmp_path / "x.csv", wiki, events)
    named = EventStream.from_arrays(["a", "b"], ["c", "d"], [1, 2])
    with pytest.raises(DataError, match="integer node ids"):
        read_candidates(path, named, np.array([1]))
