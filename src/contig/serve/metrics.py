"""Metrics for Prometheus: requests, events, and the state of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from contig.live import Receipt, Status

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """The counters of one service, in a registry of their own."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "contig_requests", "Requests answered", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "contig_request_seconds",
            "Time to answer a request",
            ("method", "route"),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.events = Counter(
            "contig_events", "Events received, by outcome", ("outcome",), registry=self.registry
        )
        for outcome in ("accepted", "rejected", "repeated"):
            self.events.labels(outcome)
        self.registry.register(_EngineStatus(status))

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; unknown methods share a label, so that their number is bounded."""
        method = method if method in METHODS else "other"
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)

    def count_events(self, receipt: Receipt) -> None:
        """Count what became of a batch of events."""
        accepted = "repeated" if receipt.repeated else "accepted"
        self.events.labels(accepted).inc(receipt.accepted)
        self.events.labels("rejected").inc(len(receipt.rejected))

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class _EngineStatus:
    """Reads the engine's status when the metrics are scraped."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self.status = status

    def collect(self) -> Iterator[Metric]:
        status = self.status()
        yield CounterMetricFamily("contig_stored_events", "Events the engine knows", status.events)
        gauges = {
            "nodes": ("Nodes the engine knows", status.nodes),
            "log_bytes": ("Size of the event log", status.log_bytes),
            "snapshot_events": ("Events in the newest snapshot", status.snapshot_events),
            "snapshot_age_seconds": ("Age of the newest snapshot", status.snapshot_age_s),
            "uptime_seconds": ("Time since the engine was opened", status.uptime_s),
            "events_per_second": ("Events taken in recently, per second", status.events_per_second),
        }
        for name, (help, value) in gauges.items():
            if value is not None:
                yield GaugeMetricFamily(f"contig_{name}", help, value)
