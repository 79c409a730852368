"""Requests generated from the service's own schema get answers that the schema describes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient

from contig.live import Engine

pytest.importorskip("schemathesis", reason="needs schemathesis, of the extra dev")

EXAMPLES = int(os.environ.get("CONTIG_EXAMPLES", "6"))  # of each operation and mode
GENERATED = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def operations(http: TestClient) -> list[Any]:
    import schemathesis

    schema = schemathesis.openapi.from_dict(http.get("/openapi.json").json())
    return [found.ok() for found in schema.get_all_operations()]


def exchange(http: TestClient, case: Any) -> Any:
    """Send a case; it must be answered as the schema says."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    request = case.as_transport_kwargs(base_url="http://127.0.0.1")
    answer = http.request(
        request["method"],
        request["url"],
        headers=dict(request["headers"]),
        params=request.get("params"),
        **({"json": request["json"]} if "json" in request else {"content": _bytes(request.get("data"))}),
    )
    # A schema cannot say that a text must be a time, or that an id must exist.
    case.validate_response(answer, excluded_checks=[positive_data_acceptance])
    assert "Traceback" not in answer.text
    return answer


def _bytes(data: Any) -> Any:
    return data.encode() if isinstance(data, str) else data


def test_generated_requests_are_answered_as_the_schema_says(http: TestClient, engine: Engine) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import load_all_checks

    load_all_checks()
    for operation in operations(http):
        modes = [GenerationMode.POSITIVE]
        if operation.body or any(True for _ in operation.iter_parameters()):  # something can be wrong
            modes.append(GenerationMode.NEGATIVE)
        for mode in modes:

            @GENERATED
            @given(case=operation.as_strategy(mode))
            def send(case: Any) -> None:
                events, vector = engine.status().events, engine.embed(["n3"], 90.0).vectors
                answer = exchange(http, case)
                if not answer.is_success:
                    assert engine.status().events == events, "a refused request changed the state"
                    np.testing.assert_array_equal(engine.embed(["n3"], 90.0).vectors, vector)

            send()
