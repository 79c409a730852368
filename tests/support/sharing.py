"""A task such as another package could offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contig import EvaluationContext, ResultTable, Task, TaskResult, option


@dataclass(frozen=True)
class ShareOptions:
    power: int = option(1, "what the share is raised to", low=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareResult(TaskResult):
    share: float


class ShareTask(Task[ShareOptions, ShareResult]):
    """The share of the events that are test events."""

    name = "share"
    summary = "share of test events"
    options = ShareOptions
    result_type = ShareResult

    def measure(self, context: EvaluationContext) -> ShareResult:
        share = len(context.data.split.test) / len(context.data.stream)
        return ShareResult(protocol=self.protocol(context), share=share**self.opt.power)

    @classmethod
    def table(cls, results: Mapping[str, ShareResult]) -> ResultTable:
        rows = tuple((model, f"{result.share:.3f}") for model, result in results.items())
        return ResultTable(("model", "share"), rows, notes=("of all events",), names=1)
