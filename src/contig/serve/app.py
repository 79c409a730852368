"""The HTTP service around an engine, as an ASGI app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from contig import __version__
from contig.live import Engine
from contig.serve import health, nodes, streams
from contig.serve.gate import Gate
from contig.serve.metrics import Metrics
from contig.serve.problems import MEDIA_TYPE, Problem, add_handlers
from contig.serve.service import Service
from contig.serve.settings import ServeSettings
from contig.serve.workers import Workers

PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}
ANY_REQUEST = ("401", "404", "405", "413", "421", "422", "500", "503")  # errors of every endpoint
DESCRIPTIONS = {"404": "There is nothing at this path, or no event has named the node."}
WITH_BODY = ("400", "408", "415", "507")


def create_app(engine: Engine, settings: ServeSettings | None = None, token: str | None = None) -> Gate:
    """Build the service of an engine, which it closes when it stops."""
    settings = settings or ServeSettings()
    metrics = Metrics(engine.status)
    service = Service(engine, settings, Workers(settings.readers, settings.writers), metrics)
    app = FastAPI(
        title="contig",
        version=__version__,
        description="Embeddings, scores, recommendations and trajectories of any node at any time.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.service = service
    add_handlers(app)
    for router in (streams.router, nodes.router, health.router):
        app.include_router(router)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]
    return Gate(app, settings, token, metrics)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Finish what was accepted before the engine is closed."""
    yield
    service: Service = app.state.service
    service.workers.finish()
    service.engine.close()


def _schema(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with problem details as the form of all errors."""
    if app.openapi_schema is None:
        schema = FastAPI.openapi(app)
        components = schema["components"]["schemas"]
        for model in (Problem, *streams.BODIES):
            full = model.model_json_schema(ref_template="#/components/schemas/{model}")
            components |= full.pop("$defs", {}) | {model.__name__: full}
        for name in ("HTTPValidationError", "ValidationError"):
            components.pop(name, None)
        for path in schema["paths"].values():
            for method, operation in path.items():
                operation["responses"] |= _problems(method)
        app.openapi_schema = schema
    return app.openapi_schema


def _problems(method: str) -> dict[str, Any]:
    statuses = (*ANY_REQUEST, *(WITH_BODY if method == "post" else ()))
    return {
        status: {"description": DESCRIPTIONS.get(status, "Problem"), "content": {MEDIA_TYPE: PROBLEM}}
        for status in statuses
    }
