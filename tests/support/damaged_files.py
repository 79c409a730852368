"""Files of every format, and ways to damage them."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contig.data.companions import companion_features
from contig.data.readers import read_events

ROWS = 12


def _rows(separator: str, header: str = "") -> bytes:
    rng = np.random.default_rng(5)
    lines = [header] if header else []
    for i in range(ROWS):
        fields = [f"{rng.integers(4)}", f"{10 + rng.integers(5)}", f"{100 + 7 * i}"]
        if header:
            fields += [f"{i % 2}", f"{rng.normal():.3f}", f"{rng.normal():.3f}"]
        lines.append(separator.join(fields))
    return ("\n".join(lines) + "\n").encode()


def _csv() -> bytes:
    dated = _rows(",", "src,dst,t,label,f1,f2").decode().splitlines()
    fields = [line.split(",") for line in dated]
    for i, row in enumerate(fields[1:]):  # text ids and dates have more ways to be wrong than numbers
        row[0], row[2] = f"né{row[0]}", f"2024-02-{i + 1:02d}T03:04:05Z"
    return "\n".join(",".join(row) for row in fields).encode()


def _parquet() -> bytes:
    rng = np.random.default_rng(6)
    table = pa.table(
        {
            "src": pa.array([f"a{i % 3}" for i in range(ROWS)]),
            "dst": pa.array(rng.integers(0, 5, ROWS).astype(np.int32)),
            "time": pa.array(np.arange(ROWS) * 1_000, pa.timestamp("ms")),
            "label": pa.array(np.arange(ROWS) % 2, pa.int8()),
            "features": pa.array([[float(i), 0.5] for i in range(ROWS)], pa.list_(pa.float32())),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


def _gzipped() -> bytes:
    return gzip.compress(_csv(), mtime=0)


def _companion() -> bytes:
    rng = np.random.default_rng(8)
    file = io.BytesIO()
    np.savez_compressed(file, table=rng.normal(size=(3, 2)), index=rng.integers(0, 3, ROWS))
    return file.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "events.csv": _csv,
    "events.tsv": lambda: _rows("\t", "src\tdst\tt\tlabel\tf1\tf2"),
    "jodie.csv": lambda: _rows(",", "user_id,item_id,timestamp,state_label,comma_separated_list_of_features"),
    "snap.txt": lambda: b"# from to when\n" + _rows(" "),
    "events.parquet": _parquet,
    "events.csv.gz": _gzipped,
    "features.npz": _companion,
}
GARBAGE = [b"\x00", b"\xff\xfe", b'"', b"\n", b"\r", b",", b"\t", b"#", b"nan", b"-1e999", b"PAR1", 60 * b"9"]


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three faults: flipped bits, a cut, a repeated or missing chunk, or garbage put in."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        start = int(rng.integers(len(out) + 1))
        stop = start + int(rng.integers(1, 20))
        match rng.integers(5):
            case 0 if start < len(out):
                out[start] ^= 1 << int(rng.integers(8))
            case 1:
                del out[start:]
            case 2:
                out[start:start] = out[start:stop]
            case 3:
                del out[start:stop]
            case _:
                out[start:start] = GARBAGE[rng.integers(len(GARBAGE))]
    return bytes(out)


def check_valid(path: Path) -> None:
    """Read a file and check what every stream promises."""
    if path.suffix == ".npz":
        assert np.isfinite(companion_features(path, ROWS)).all()
        return
    stream = read_events(path)
    assert len(stream) > 0
    assert np.isfinite(stream.t).all()
    assert (np.diff(stream.t) >= 0).all()
    for side in (stream.src, stream.dst):
        assert side.min() >= 0
        assert side.max() < stream.num_nodes
    assert set(np.concatenate([stream.src, stream.dst]).tolist()) == set(range(stream.num_nodes))
    assert stream.edge_features is None or np.isfinite(stream.edge_features).all()
