"""What evidence about pairs costs: a step, a ranking, a list for one source, and the index itself."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import torch

from contig.benchmarks.bench import Bench
from contig.benchmarks.lookup import stream_columns
from contig.benchmarks.measurement import Measurement
from contig.benchmarks.ranking import RANKED_ON_CPU, state_before
from contig.benchmarks.steps import TrainingSteps
from contig.benchmarks.timing import repeat
from contig.data.negatives import Negatives
from contig.history import History
from contig.history.evidence import Evidence, EvidenceSpec, meeting
from contig.tasks.ranking import Ranker

MODEL = "contig-pair"
LISTED = 1000  # candidates of the list for one source
SPEC = EvidenceSpec(decay_times=(1e3, 1e4, 1e5), nodes=True, steps=(1, 2))
APPENDED = 200  # events per call
CPU = torch.device("cpu")


def measure_pair_step(bench: Bench) -> Iterator[Measurement]:
    """Compare a training step of contig-pair with one of ConTIG."""
    ours, theirs = bench.time_steps(*(TrainingSteps(bench.session(name)) for name in (MODEL, "contig")))
    what = f"training step, {MODEL}"
    yield Measurement.compare(
        "pair-step", what, ours, "contig", theirs, note="target: a ratio of at least 0.4"
    )


def measure_pair_ranking(bench: Bench) -> Iterator[Measurement]:
    """Time ranking all test events, and the list of one source."""
    model, test, size = bench.session(MODEL).model.eval(), bench.data.split.test, bench.settings.batch_size
    on_cpu = bench.device.type == "cpu"
    events = test[: bench.settings.ranked or (RANKED_ON_CPU if on_cpu else len(test))]
    history = bench.data.history
    negatives = Negatives(bench.stream, events=test, device=bench.device)
    state = state_before(bench, model, test)
    start = state.clone().snapshot()
    ranker = Ranker(model, state, history, size, negatives)

    def rank_all() -> None:
        state.restore(start)
        ranker(events)

    own = [x * len(test) / len(events) for x in repeat(rank_all, bench.few_repeats, bench.device)]
    destinations = bench.stream.destinations
    what = f"rank all {len(test):,} test events among {len(destinations):,} destinations, {MODEL}"
    note = f"extrapolated from the first {len(events):,}" if len(events) < len(test) else ""
    yield Measurement.without_peer("pair-ranking", what, own, note=note)

    source, time = (history.events[name][int(test[0])] for name in ("src", "t"))
    candidates = torch.from_numpy(destinations[:LISTED]).to(bench.device)

    @torch.no_grad()
    def list_one() -> None:
        logits = model.rank(state, history, source.reshape(1), candidates, time, time)
        logits[0].topk(min(10, len(candidates)))

    own = repeat(list_one, bench.settings.repeats, bench.device)
    what = f"the best ten of {len(candidates):,} destinations for one source, {MODEL}"
    yield Measurement.without_peer("pair-ranking", what, own)


def measure_evidence(bench: Bench) -> Iterator[Measurement]:
    """Time building, growing and reading the evidence on the CPU; report its size."""
    history, events = History.from_stream(bench.stream), len(bench.stream)
    own = repeat(lambda: Evidence(history, SPEC), bench.few_repeats, CPU)
    note = f"{events / median(own):,.0f} events/s"
    yield Measurement.without_peer("evidence", f"count the evidence of {events:,} events", own, note=note)
    evidence = Evidence(history, SPEC)
    for name, keyed in (("meetings and nodes", evidence.events), ("transitions", evidence.transitions)):
        size = keyed.nbytes() / events
        yield Measurement.without_peer(
            "evidence", f"size of the counts of {name}", [size], unit="bytes/event"
        )

    columns = stream_columns(bench.stream)

    def grow() -> None:
        growing = History.empty(time_dtype=columns[2].dtype)
        for first in range(0, events, APPENDED):
            growing.append(*(column[first : first + APPENDED] for column in columns))
            growing.evidence(SPEC)

    own = repeat(grow, 1, CPU)
    what = f"append {events:,} events, {APPENDED} per call, with their evidence"
    yield Measurement.without_peer("evidence", what, own, note=f"{events / median(own):,.0f} events/s")

    generator = torch.Generator().manual_seed(0)
    at = torch.randint(events, (bench.settings.queries,), generator=generator)
    keys = meeting(columns[0][at], columns[1][at.flip(0)])
    own = repeat(lambda: evidence.events.features(keys, columns[2][at], 1.0), bench.settings.repeats, CPU)
    note = f"{len(keys) / median(own):,.0f} keys/s"
    yield Measurement.without_peer("evidence", f"describe {len(keys):,} pairs", own, note=note)
