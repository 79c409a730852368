from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from support.event_files import as_parquet, assert_same, seven

from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.errors import DataError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "src\tdst\tt\n1\t2\t3\n"),  # tabs and a header under a neutral suffix
        ("a.dat", "src,dst,t\n1,2,3\n"),
        ("a", "1 2 3\n"),
        ("a.tsv", "SRC\tDst\tT\n1\t2\t3\n"),
        ("a.csv", "\ufeffsrc,dst,t\n1,2,3\n"),  # a byte order mark, as spreadsheets write
        ("a.csv", "\n\nsrc,dst,t\n\n1,2,3\n\n"),
        ("a.csv", 'src,dst,t\r\n"1","2","3"\r\n'),
        ("a.edges", "1\t2\t3\n"),
        ("a.csv", "src;dst;t\n1;2;3\n"),  # as Excel writes in many countries
        ("a.txt", "src|dst|t\n1|2|3\n"),
        ("a.csv", "src\tdst\tt\n1\t2\t3\n"),
        ("a.txt", '{"src": 1, "dst": 2, "t": 3}\n'),
        ("a.snap", "# by its name\n1 2 3\n"),
    ],
)
def test_the_format_is_detected(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert_same(read_events(tmp_path / name), EventStream.from_arrays([1], [2], [3]))
    (tmp_path / "z.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    assert_same(read_events(tmp_path / "z.gz"), EventStream.from_arrays([1], [2], [3]))


def test_parquet_is_detected_by_its_first_bytes(tmp_path: Path) -> None:
    path = as_parquet(seven(), tmp_path).rename(tmp_path / "events.data")
    assert_same(read_events(path), seven().stream())


def test_jodie_with_another_header_is_detected_by_its_wider_rows(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("user,item,time,label,features\n1,1,5,0,0.1,0.2,0.3\n2,1,6,1,0.4,0.5,0.6\n")
    stream = read_events(path)
    assert stream.edge_width == 3
    assert stream.bipartite
    assert read_events(path, features=[]).edge_width == 0


def test_a_csv_with_a_long_first_row_is_not_jodie(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("src,dst,t\n1,2,3,4\n1,2,3\n")
    with pytest.raises(DataError, match=r"long\.csv, line 2: 4 fields, expected 3"):
        read_events(path)
