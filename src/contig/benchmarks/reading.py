"""Reading files of events."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

import torch

from contig.benchmarks.bench import Bench
from contig.benchmarks.environment import require
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.timing import alternate
from contig.data.events import EventStream
from contig.data.readers import read_events
from contig.data.synthetic import synthetic

CPU = torch.device("cpu")


def write_events(stream: EventStream, folder: Path) -> tuple[Path, Path]:
    """Write the stream, with its original ids, as a CSV and as a Parquet file."""
    import pandas as pd

    labels = stream.ids.labels
    frame = pd.DataFrame({"src": labels[stream.src], "dst": labels[stream.dst], "t": stream.t})
    csv, parquet = folder / "events.csv", folder / "events.parquet"
    frame.to_csv(csv, index=False)
    frame.to_parquet(parquet, index=False)
    return csv, parquet


def measure_reading(bench: Bench) -> Iterator[Measurement]:
    """Compare reading files with pandas, which does less: it neither checks, sorts nor numbers."""
    require("pandas")
    import pandas as pd

    rows = max(bench.settings.events // 10, 1)
    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = write_events(synthetic(events=rows), Path(folder))
        for kind, path, peer in (("CSV", csv, pd.read_csv), ("Parquet", parquet, pd.read_parquet)):
            own, theirs = alternate(
                [partial(read_events, path), partial(peer, path)],
                bench.settings.repeats,
                CPU,
            )
            what, note = f"read {kind}, {rows:,} rows", f"{rows / median(own):,.0f} rows/s"
            yield Measurement.compare("read", what, own, f"pandas.read_{kind.lower()}", theirs, note=note)
