"""Link prediction by how long the source has been away.

The interval of an event is the time since its source last appeared, 0 for its first appearance (the
paper's Definition 3). The 20, 40, 60 and 80% quantiles over the test events cut them into five sets, the
same for every selection; where many intervals are equal (0, say) they stay in one set, so sets may
differ in size. The scores are those of link prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from contig.data.events import EventStream
from contig.data.negatives import Kind
from contig.data.splits import Split, interval_sets, intervals
from contig.tasks.link import METRICS, LinkScores, check_scores, link_report, scores_of_test
from contig.tasks.setting import Setting

SETS = ("0-20%", "20-40%", "40-60%", "60-80%", "80-100%")


def interval_report(
    stream: EventStream,
    split: Split,
    events: NDArray[np.int64],
    scores: LinkScores,
    batch_size: int,
    *,
    inductive: bool = True,
) -> dict[str, Any]:
    """For each set its shortest and longest interval, and the metrics of every selection in it."""
    check_scores(stream, events, np.stack(scores, axis=1))
    away = intervals(stream)[events]
    member = interval_sets(away)
    report: dict[str, Any] = {"intervals": {}}
    for number, name in enumerate(SETS):
        inside = member == number
        report["intervals"][name] = [away[inside].min(), away[inside].max()] if inside.any() else None
        chosen = LinkScores(scores.positive[inside], scores.negative[inside])
        found = link_report(stream, split, events[inside], chosen, batch_size, inductive=inductive)
        for selection, metrics in found.items():
            report.setdefault(selection, {})[name] = metrics
    return report


def measure(setting: Setting, negatives: Kind = "random") -> dict[str, Any]:
    """AP and AUC of the test events in five sets, from the shortest absences to the longest."""
    scores = scores_of_test(setting, negatives)
    report = interval_report(
        setting.stream,
        setting.split,
        setting.split.test,
        scores,
        setting.batch_size,
        inductive=setting.model.inductive,
    )
    protocol = {
        "negatives": negatives,
        "metrics": METRICS,
        "sets": "quintiles over the test events of the time since the source last appeared, 0 for the first",
    }
    return {"protocol": protocol, **report}
