"""All measurements by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from contig.benchmarks.bench import Bench
from contig.benchmarks.bulk import measure_bulk
from contig.benchmarks.departures import measure_departures
from contig.benchmarks.environment import MissingPackage
from contig.benchmarks.evidence import measure_evidence, measure_pair_ranking, measure_pair_step
from contig.benchmarks.index import measure_append, measure_index
from contig.benchmarks.live import measure_live
from contig.benchmarks.live_hour import measure_live_hour
from contig.benchmarks.lookup import measure_lookup, measure_lookup_loop
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.memory import measure_memory
from contig.benchmarks.ode import measure_ode
from contig.benchmarks.ranking import measure_ranking, measure_ranking_times
from contig.benchmarks.reading import measure_reading
from contig.benchmarks.roofline import measure_roofline
from contig.benchmarks.scopes import measure_scopes
from contig.benchmarks.serving import measure_serve
from contig.benchmarks.startup import measure_startup
from contig.benchmarks.steps import (
    measure_disk,
    measure_epoch,
    measure_host,
    measure_plain_step,
    measure_scoring,
    measure_step,
)
from contig.errors import ConfigError, unknown

log = logging.getLogger("contig")

MEASUREMENTS: dict[str, Callable[[Bench], Iterator[Measurement]]] = {
    "contig-step": partial(measure_step, model="contig"),
    "tgn-step": partial(measure_step, model="tgn"),
    "contig-plain": partial(measure_plain_step, model="contig"),
    "tgn-plain": partial(measure_plain_step, model="tgn"),
    "epoch": measure_epoch,
    "host": measure_host,
    "disk": measure_disk,
    "scoring": measure_scoring,
    "ranking": measure_ranking,
    "ranking-times": measure_ranking_times,
    "departures": measure_departures,
    "scopes": measure_scopes,
    "pair-step": measure_pair_step,
    "pair-ranking": measure_pair_ranking,
    "evidence": measure_evidence,
    "read": measure_reading,
    "index": measure_index,
    "append": measure_append,
    "lookup": measure_lookup,
    "lookup-loop": measure_lookup_loop,
    "ode": measure_ode,
    "live": measure_live,
    "live-hour": measure_live_hour,
    "serve": measure_serve,
    "bulk": measure_bulk,
    "startup": measure_startup,
    "memory": measure_memory,
    "roofline": measure_roofline,
}


def select(only: str | None) -> list[str]:
    """Return the measurements in a comma-separated list, in the order of the suite; all for None."""
    if only is None:
        return list(MEASUREMENTS)
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if name not in MEASUREMENTS:
            raise ConfigError(unknown("measurement", name, MEASUREMENTS))
    if not names:
        raise ConfigError(f"--only names no measurement. Available: {', '.join(MEASUREMENTS)}.")
    return [name for name in MEASUREMENTS if name in names]


def measure(bench: Bench, name: str) -> list[Measurement]:
    """Take one measurement; if a peer is missing or the device fails, the last row says so."""
    rows: list[Measurement] = []
    try:
        rows.extend(MEASUREMENTS[name](bench))
    except MissingPackage as missing:
        rows.append(Measurement.missing(name, str(missing)))
    except RuntimeError as error:  # such as out of memory: the other measurements must not be lost
        log.warning("%s failed: %s", name, error)
        rows.append(Measurement.missing(name, str(error).strip().partition("\n")[0], what="failed"))
    return rows
