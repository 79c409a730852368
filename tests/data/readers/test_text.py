from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.event_files import JODIE_HEADER, as_csv, assert_same, rejection, seven

from contig.data.events import EventStream
from contig.data.readers import read_events, text_file
from contig.data.validation import UNKNOWN_LABEL
from contig.errors import DataError


def test_jodie_equals_a_table_of_users_and_items(tmp_path: Path) -> None:
    events = seven()
    path = tmp_path / "jodie.csv"
    path.write_text("\n".join([JODIE_HEADER, *(",".join(row) for row in events.rows())]))
    jodie = read_events(path)
    table = events.table().rename_columns(["user_id", "item_id", "timestamp", "state_label", "f1", "f2"])
    assert jodie.equals(read_events(table))
    assert jodie.bipartite
    assert jodie.num_nodes == 4 + 3  # 1 and 2 live on both sides
    assert jodie.ids.find(2, side="src") != jodie.ids.find(2, side="dst")
    assert jodie.notices == ()


def test_snap_equals_csv_without_label_and_features(tmp_path: Path) -> None:
    events = replace(seven(), label=None, features=None)
    path = tmp_path / "snap.txt"
    lines = [f"  {s}\t {d}   {t} " for s, d, t in zip(events.src, events.dst, events.t, strict=True)]
    path.write_text(
        "# a comment\r\n#\r\n\r\n" + "\r\n".join(lines[:3]) + "\r\n  # more\r\n" + "\r\n".join(lines[3:])
    )
    assert_same(read_events(path), read_events(as_csv(events, tmp_path)))


def test_jodie_with_one_constant_feature_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "lastfm.csv"
    path.write_text(f"{JODIE_HEADER}\n0,0,0.0,0,0\n0,1,3.5,0,0\n1,0,4.0,0,0\n")
    stream = read_events(path)
    assert stream.edge_features is not None
    assert stream.edge_features.tolist() == [[0], [0], [0]]
    assert stream.t.tolist() == [0, 3.5, 4]


@pytest.mark.parametrize(("one", "zero"), [("1", "0"), ("yes", "no")])
def test_empty_labels_are_unknown(one: str, zero: str, tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text(f"src,dst,t,label\n1,2,10,{one}\n2,3,11,\n3,1,12,{zero}\n")
    assert read_events(path).label.tolist() == [1, UNKNOWN_LABEL, 0]


@pytest.mark.parametrize("end", ["", ","])
def test_jodie_without_features(end: str, tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text(f"{JODIE_HEADER}\n5,5,1,0{end}\n6,5,2,1{end}\n")
    stream = read_events(path)
    assert stream.edge_features is None
    assert stream.label is not None
    assert stream.label.tolist() == [0, 1]
    assert stream.ids.labels.tolist() == [5, 6, 5]


def test_jodie_without_a_header_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "headless.csv"
    path.write_text("1,1,5,0,0.5\n2,1,6,1,0.5\n")
    assert f"{path}, line 1: this is an event" in rejection(path, format="jodie")


def test_csv_without_header_by_position(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("6,2,4,1289241911.72836\n6,5,-2,1289241941.5\n1,15,1,1289243140.0\n")
    stream = read_events(path, src=0, dst=1, t=3, features=[2])
    expected = EventStream.from_arrays(
        [6, 6, 1], [2, 5, 15], [1289241911.72836, 1289241941.5, 1289243140.0], edge_features=[[4], [-2], [1]]
    )
    assert_same(stream, expected)
    with pytest.raises(DataError, match=r"no header.*4 fields.*src=0, dst=1, t=2"):
        read_events(path)
    with pytest.raises(
        DataError, match=r"no column 4 for the times. There are columns '0', '1', '2', '3', counted"
    ):
        read_events(path, src=0, dst=1, t=4)


@pytest.mark.parametrize(
    ("first", "positions"),
    [
        ("Anna Van Dyk 408,Shop 5,2024-05-01T10:00", "src=0, dst=1, t=2"),
        ("13.01.2024 08:05,Anna,Shop", "src=1, dst=2, t=0"),
        ("Anna,1714521600,Shop", "src=0, dst=2, t=1"),
        ("Anna,Shop,1714521600,5", "src=0, dst=1, t=2"),
    ],
)
def test_a_first_event_is_not_taken_for_a_header(first: str, positions: str, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text(f"{first}\n{first}\n")
    with pytest.raises(DataError, match=f"seems to have no header.*{positions}"):
        read_events(path)


def test_blank_separated_lines_of_another_width_by_position(tmp_path: Path) -> None:
    path = tmp_path / "weighted.txt"
    path.write_text("# src dst weight t\n1 2 0.5 10\n2 3 0.25 11\n")
    with pytest.raises(DataError, match="4 fields"):
        read_events(path)
    stream = read_events(path, src=0, dst=1, features=[2], t=3)
    assert_same(stream, EventStream.from_arrays([1, 2], [2, 3], [10, 11], edge_features=[[0.5], [0.25]]))


def test_a_header_read_as_an_event_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "named.csv"
    path.write_text("a,b,when\n1,2,3\n")
    with pytest.raises(DataError, match=r"named\.csv, line 1, column '2': 'when' is not a time"):
        read_events(path, src=0, dst=1, t=2)


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        (["007", "7"], ["007", "7"]),
        (["0x1f", "31"], ["0x1f", "31"]),
        (["true", "false"], ["false", "true"]),
        (["2020-01-01", "2020-01-02"], ["2020-01-01", "2020-01-02"]),
        (["12345678901234567890", "12345678901234567891"], ["12345678901234567890", "12345678901234567891"]),
        (["NA", "NA"], ["NA"]),
        (["1.0", "2.0"], [1, 2]),
        (["-3", "12"], [-3, 12]),
        (["0", "10"], [0, 10]),
    ],
)
def test_ids_keep_their_spelling_unless_they_are_numbers(
    written: list[str], labels: list[int | str], tmp_path: Path
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("src,dst,t\n" + "".join(f"{name},{written[0]},1\n" for name in written))
    assert read_events(path, bipartite=False).ids.labels.tolist() == labels


def test_zero_padded_ids_after_many_numbers_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    ids = [*map(str, range(1, 301)), "007"]
    path.write_text("src,dst,t\n" + "".join(f"{x},{x},{i}\n" for i, x in enumerate(ids)))
    stream = read_events(path)
    assert stream.num_nodes == 301
    assert stream.ids.labels[stream.src].tolist() == ids


@pytest.mark.parametrize(("first", "second"), [("ann ", " ann"), ("7 ", " 7"), ("\tann", '"ann "')])
def test_blanks_around_ids_do_not_count(first: str, second: str, tmp_path: Path) -> None:
    path = tmp_path / "blanks.csv"
    path.write_text(f"src , dst,t\n{first},x1 , 1\n{second},x1, 2 \n")
    stream = read_events(path)
    assert stream.ids.labels[stream.src].tolist() in (["ann", "ann"], ["7", "7"])
    assert stream.t.tolist() == [1, 2]
    assert stream.num_nodes == 2


def test_an_id_of_blanks_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "blanks.csv"
    path.write_text("src,dst,t\nann,x,1\n  ,x,2\n")
    with pytest.raises(DataError, match=r"blanks\.csv, line 3, column 'src'"):
        read_events(path)


@pytest.mark.parametrize(("columns", "digits"), [(5_000, 20), (50, 100_000)])
def test_long_lines_are_read(columns: int, digits: int, tmp_path: Path) -> None:
    """Longer than what is read to detect the format; the second ones also than a block that is parsed."""
    path = tmp_path / "wide.csv"
    names, values = (
        ",".join(cells) for cells in ([f"f{i}" for i in range(columns)], [f"0.{'1' * digits}"] * columns)
    )
    path.write_text(f"src,dst,t,{names}\n" + "".join(f"a,b,{i},{values}\n" for i in range(3)))
    stream = read_events(path)
    assert stream.t.tolist() == [0, 1, 2]
    assert stream.edge_features is not None
    assert stream.edge_features.shape == (3, columns)
    assert np.allclose(stream.edge_features, 1 / 9)


def test_a_field_without_its_closing_quote_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    path.write_text('src,dst,t\n"ann,x,1\n' + "bob,x,2\n" * 20_000)
    with pytest.raises(DataError, match=r"field larger than field limit .*check its quotes"):
        read_events(path)


def test_events_after_long_comments_are_found(tmp_path: Path) -> None:
    path = tmp_path / "commented.txt"
    path.write_text("# why\n" * 50_000 + "1 2 3\n2 3 4\n")
    assert read_events(path).t.tolist() == [3, 4]


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.txt.gz"])
def test_a_decompression_bomb_is_rejected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    separator = "," if ".csv" in name else " "
    lines = "".join(f"{separator.join(['src', 'dst', 't'])}\n") if ".csv" in name else ""
    path.write_bytes(gzip.compress((lines + f"1{separator}2{separator}3\n" * 200_000).encode()))
    assert len(read_events(path)) == 200_000
    monkeypatch.setattr(text_file, "size_limit", lambda size: 100 * size)
    monkeypatch.setattr(text_file, "BLOCK_BYTES", 1 << 14)
    with pytest.raises(DataError, match=r"bomb\..* decompression bomb; if you trust the file, decompress it"):
        read_events(path)


def test_text_ids_after_many_numbers_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    ids = [*map(str, range(1, 60_001)), "late"]
    path.write_text("src,dst,t\n" + "".join(f"{x},{x},{i}\n" for i, x in enumerate(ids)))
    stream = read_events(path)
    assert stream.num_nodes == 60_001
    assert stream.ids.labels[stream.src].tolist() == ids


GOOD = ["src,dst,t,label,f1", "1,2,10,0,0.5", "2,3,11,1,0.25", "3,1,12,0,0.75", "1,3,13,0,1"]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (",3,12,0,0.75", ["column 'src'", "the id is missing", "fill it in or remove the event"]),
        ("3,NA,12,0,0.75", ["column 'dst'", "the id is missing"]),
        ("1.5,3,12,0,0.75", ["column 'src'", "1.5", "whole numbers or text"]),
        ("3,1,,0,0.75", ["column 't'", "the time is missing"]),
        ("3,1,inf,0,0.75", ["column 't'", "inf", "is not a time", "finite number"]),
        ("3,1,nan,0,0.75", ["column 't'", "the time is missing"]),
        ("3,1,soon,0,0.75", ["column 't'", "'soon'", "is not a time", "ISO 8601"]),
        ("3,1,12,maybe,0.75", ["column 'label'", "'maybe'", "is not a whole number", "0 and 1"]),
        ("3,1,12,0.5,0.75", ["column 'label'", "0.5", "is not a whole number"]),
        ("3,1,12,0,heavy", ["column 'f1'", "'heavy'", "is not a number"]),
        ("3,1,12,0,", ["column 'f1'", "the feature is missing", "fill missing features"]),
        ("3,1,12,0,1e300", ["column 'f1'", "1e+300", "is not a finite float32", "scale"]),
        ("3,1,12,0", ["4 fields, expected 5", "'3,1,12,0'", "complete the line or remove it"]),
        ("3,1,12,0,0.75,9", ["6 fields, expected 5"]),
        ("3", ["1 field, expected 5", "'3'"]),
    ],
)
@pytest.mark.parametrize("form", ["csv", "tsv", "gz", "jodie", "late"])
def test_a_bad_line_is_reported(line: str, parts: list[str], form: str, tmp_path: Path) -> None:
    many = [f"{i},{i},{i},0,0.5" for i in range(1, 20_000)] if form == "late" else []  # beyond the first look
    lines = [GOOD[0], "", *many, GOOD[1], GOOD[2], line, *GOOD[4:]]
    path = tmp_path / ("events.tsv" if form == "tsv" else "events.csv")
    text = "\n".join(lines)
    if form == "jodie":
        text = text.replace(GOOD[0], JODIE_HEADER)
    path.write_text(text.replace(",", "\t") if form == "tsv" else text)
    if form == "gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    message = rejection(path)
    assert message.startswith(f"{path}, line {lines.index(line) + 1}")
    columns = {"'src'": "'user_id'", "'dst'": "'item_id'", "'t'": "'timestamp'", "'label'": "'state_label'"}
    for part in parts:
        name = part.removeprefix("column ")
        assert (f"column {columns[name]}" if form == "jodie" and name in columns else part) in message


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("1 2", ["2 fields, expected 3"]),
        ("1 2 3 4", ["4 fields, expected 3"]),
        ("1 2 later", ["column 't'", "'later'", "is not a time"]),
        ("1 2 inf", ["column 't'", "inf", "is not a time"]),
    ],
)
def test_a_bad_line_of_a_snap_file_is_reported(line: str, parts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "snap.txt"
    path.write_text(f"# header\n1 2 10\n\n2  3\t11\n# more\n{line}\n3 4 12\n")
    message = rejection(path)
    assert message.startswith(f"{path}, line 6")
    assert all(part in message for part in parts)


@pytest.mark.parametrize(
    ("name", "data", "part"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("blank.csv", b"\n \n", "the file is empty"),
        ("bom.csv", b"\xef\xbb\xbf", "the file is empty"),
        ("header.csv", b"src,dst,t\n", "no events"),
        ("header.csv", b"src,dst,t\n\n\n", "no events"),
        ("header.csv", JODIE_HEADER.encode(), "no events"),
        ("comments.txt", b"# only\n# comments\n", "no events"),
        ("binary.csv", bytes(range(256)), "binary data"),
        ("utf16.csv", "src,dst,t\n1,2,3\n".encode("utf-16"), "binary data"),
        (
            "latin.csv",
            "src,dst,t\na,b,1\ncaf\u00e9,b,2\n".encode("latin-1"),
            "line 3: byte 0xe9 is not UTF-8",
        ),
        ("empty.parquet", b"", "not a Parquet file"),
        ("text.parquet", b"src,dst,t\n1,2,3\n", "not a Parquet file"),
        ("short.parquet", b"PAR1PAR1", "not a Parquet file"),
        ("empty.csv.gz", gzip.compress(b"", mtime=0), "the file is empty"),
        ("cut.csv.gz", gzip.compress(b"src,dst,t\n" + b"1,2,3\n" * 50, mtime=0)[:-5], "Truncated"),
        ("three.csv", b"user_id,item_id,timestamp,state_label,comma_separated_x\n1,2,3\n", "3 fields"),
    ],
)
def test_files_without_events_are_rejected(name: str, data: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    message = rejection(path)
    assert message.startswith(str(path))
    assert part in message


def test_invalid_utf8_is_reported_beyond_the_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_bytes(b"src,dst,t\n" + b"ann,bob,1\n" * 20_000 + b"ann,b\xe9,2\nann,bob,3\n")
    message = rejection(path)
    assert message.startswith(f"{path}, line 20002, column 'dst'")
    assert "b'b\\xe9'" in message
    assert "UTF-8" in message
