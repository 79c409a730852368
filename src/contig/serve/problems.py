"""Errors as problem details (RFC 9457): every response that is not a success has this form."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from contig.errors import ConfigError, ContigError, DataError, StorageFullError, UnknownNodeError

log = logging.getLogger("contig.serve")

MEDIA_TYPE = "application/problem+json"
SHOWN_ERRORS = 20  # a long batch may have a mistake in every row


class FieldError(BaseModel):
    """One invalid value of a request."""

    where: str = Field(description="the parameter or the place in the body, such as `body[3].src`")
    message: str


class Problem(BaseModel):
    """What went wrong, as RFC 9457 describes it."""

    model_config = ConfigDict(extra="forbid")

    type: str = "about:blank"
    title: str = Field(description="the meaning of the status code")
    status: int
    detail: str = Field(description="what is wrong and what to do")
    errors: list[FieldError] | None = Field(None, description="the invalid values of the request")


class RequestError(Exception):
    """A request that is refused with a status code."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.errors, self.headers = list(errors), dict(headers or {})


def problem(
    status: int, detail: str, errors: Sequence[FieldError] = (), headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Build the response for an error."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, errors=list(errors) or None)
    content = body.model_dump(exclude_none=True)
    return JSONResponse(content, status, dict(headers or {}), media_type=MEDIA_TYPE)


def status_of(error: ContigError) -> int:
    """Return the status code for an error of the package."""
    match error:
        case StorageFullError():
            return HTTPStatus.INSUFFICIENT_STORAGE
        case UnknownNodeError():
            return HTTPStatus.NOT_FOUND
        case DataError() | ConfigError():
            return HTTPStatus.UNPROCESSABLE_ENTITY
    return HTTPStatus.SERVICE_UNAVAILABLE


def field_errors(errors: Sequence[Any]) -> list[FieldError]:
    """Convert pydantic's errors; what they repeat of the input is left out."""
    return [FieldError(where=_place(one["loc"]), message=one["msg"]) for one in errors[:SHOWN_ERRORS]]


def _place(location: Sequence[int | str]) -> str:
    first, *rest = location or ("body",)
    return str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)


def add_handlers(app: FastAPI) -> None:
    """Answer every error of an app with problem details."""
    app.add_exception_handler(RequestError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ContigError, _contig)
    app.add_exception_handler(Exception, _unexpected)


async def _refused(request: Request, error: Any) -> JSONResponse:
    return problem(error.status, error.detail, error.errors, error.headers)


async def _invalid(request: Request, error: Any) -> JSONResponse:
    found = field_errors(error.errors())
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The request has invalid parameters.", found)


async def _http(request: Request, error: Any) -> JSONResponse:
    details = {
        404: "There is nothing at this path; see /docs for those that exist.",
        405: "This path does not support the method; the header Allow lists those it does.",
    }
    return problem(error.status_code, details.get(error.status_code, str(error.detail)), (), error.headers)


async def _contig(request: Request, error: Any) -> JSONResponse:
    status = status_of(error)
    if status >= 500:
        log.error("the engine failed", extra={"fields": {"error": str(error)}})
    return problem(status, str(error))


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    """Log an error that is a bug; the response says nothing about it."""
    log.error("unexpected error", exc_info=error, extra={"fields": {"path": request.url.path}})
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "The service failed on this request; its log has more.")
