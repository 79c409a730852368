"""Events in a request's body: a JSON list, JSON lines, or an Arrow stream. All become one Arrow table."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field, TypeAdapter, ValidationError

from contig.data.columns import ARROW_ERRORS, is_list, is_text
from contig.serve.problems import SHOWN_ERRORS, FieldError, RequestError, field_errors
from contig.serve.schemas import Event

MANY_ERRORS = 1000  # in one object; pydantic builds each of them

JSON = "application/json"
JSON_LINES = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"

COLUMNS = ("src", "dst", "t", "features")
MOST_FEATURES = 10_000

_EVENT = TypeAdapter(Event)


def parse_events(media_type: str, body: bytes, limit: int) -> pa.Table:
    """Read the events of a body as columns src, dst, t and, where there are any, features."""
    parser = _PARSERS.get(media_type)
    if parser is None:
        raise RequestError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"Send events with the Content-Type {JSON}, {JSON_LINES} or {ARROW}.",
        )
    table = parser(body, limit)
    if not table.num_rows:
        raise _invalid("The body has no events.")
    return table


def _invalid(detail: str, errors: Sequence[FieldError] = ()) -> RequestError:
    return RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, errors)


def check_batch(size: int, limit: int, what: str = "events") -> None:
    """Refuse a batch over the limit."""
    if size > limit:
        raise RequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The request has {size:,} {what}, more than the limit of {limit:,}; send several.",
        )


# --- JSON --------------------------------------------------------------------------------------------


def _json(body: bytes, limit: int) -> pa.Table:
    try:
        events = _events(limit).validate_json(body)
    except ValidationError as error:
        check_length(error, limit)
        errors = errors_in_body(error)
        a_list = all(one["loc"] for one in _details(error))
        problem = "Some events of the body are not valid" if a_list else "The body is not a list of events"
        raise _invalid(f"{problem}; see errors.", errors) from None
    return _table(events)


@cache
def _events(limit: int) -> TypeAdapter[list[Event]]:
    """Return a reader of a list that stops at the first invalid event and after the limit."""
    return TypeAdapter(Annotated[list[Event], Field(max_length=limit, fail_fast=True)])


def _details(error: ValidationError) -> list[Any]:
    """Return what is wrong; an object with thousands of unknown fields would fill the memory with it."""
    if error.error_count() > MANY_ERRORS:
        raise _invalid(f"The body has {error.error_count():,} errors; see the schema in /docs.", [])
    found: list[Any] = error.errors(include_url=False, include_input=False, include_context=False)
    return found


def check_length(error: ValidationError, limit: int, what: str = "events") -> None:
    """Refuse a list over the limit, if that is what is wrong; the rest of it was not read."""
    if any(one["type"] == "too_long" for one in _details(error)):
        raise RequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The request has more than {limit:,} {what}, the limit; send several.",
        )


def _json_lines(body: bytes, limit: int) -> pa.Table:
    lines = [line for line in body.split(b"\n") if line.strip()]
    check_batch(len(lines), limit)
    events, errors = [], []
    for row, line in enumerate(lines):
        try:
            events.append(_EVENT.validate_json(line))
        except ValidationError as error:
            errors += errors_in_body(error, row)
            if len(errors) >= SHOWN_ERRORS:
                break
    if errors:
        raise _invalid("Some lines of the body are not valid events; see errors.", errors[:SHOWN_ERRORS])
    return _table(events)


def errors_in_body(error: ValidationError, *place: int) -> list[FieldError]:
    return field_errors([{**one, "loc": ("body", *place, *one["loc"])} for one in _details(error)])


def _table(events: Sequence[Event]) -> pa.Table:
    columns = {
        "src": _ids([event.src for event in events]),
        "dst": _ids([event.dst for event in events]),
        "t": _times([event.t for event in events]),
    }
    features = [event.features for event in events]
    if any(one is not None for one in features):
        columns["features"] = _features(features)
    return pa.table(columns)


def _ids(values: Sequence[int | str]) -> pa.Array:
    """Return integers as they are; where one id is text, all are."""
    if all(isinstance(value, int) for value in values):
        return pa.array(values, pa.int64())
    return _text([str(value) for value in values])


def _times(values: Sequence[int | float | str]) -> pa.Array:
    kinds = {type(value) for value in values}
    if str in kinds and len(kinds) > 1:
        raise _invalid("The times of a batch are either numbers or dates, not both.")
    if str in kinds:
        return _text(values)
    try:
        return pa.array(values, pa.int64() if kinds == {int} else pa.float64())
    except pa.ArrowInvalid:
        raise _invalid(
            "The batch mixes times with fractions and whole ones beyond 2^53, which are not exact as "
            "fractions; send either."
        ) from None


def _text(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except (UnicodeEncodeError, pa.ArrowException):
        raise _invalid("The body has text that is not valid Unicode.") from None


def _features(rows: Sequence[Sequence[float] | Mapping[str, Any] | None]) -> pa.Array:
    if any(isinstance(row, Mapping) for row in rows):
        return _named_features([row if isinstance(row, Mapping) else {} for row in rows])
    return _listed_features([None if isinstance(row, Mapping) else row for row in rows])


def _named_features(rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Return features by name as a struct; all events of a batch have the same ones."""
    names = list(rows[0])
    if not names:
        raise _invalid("body[0].features: needs at least one feature, the same for all events of a batch.")
    for i, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            raise _invalid(
                f"body[{i}].features: every event of a batch needs the same features as body[0]; null is a "
                "missing value."
            )
    if len(names) > MOST_FEATURES:
        raise _invalid(f"An event has up to {MOST_FEATURES:,} features.")
    columns = [_values(name, [row[name] for row in rows]) for name in names]
    return pa.StructArray.from_arrays(columns, [str(_text([name])[0]) for name in names])


def _values(name: str, values: Sequence[Any]) -> pa.Array:
    """Return the values of one feature: numbers, or text where one of them is text."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds <= {bool, int, float, str}:
        raise _invalid(f"The feature {name!r} must be a number, text, true, false or null.")
    if str in kinds:
        return _text([value if value is None or isinstance(value, str) else str(value) for value in values])
    try:
        numbers = [None if value is None else float(value) for value in values]
    except OverflowError:
        numbers = [math.inf]
    if any(value is not None and not math.isfinite(value) for value in numbers):
        raise _invalid(
            f"The feature {name!r} has a value that is not a finite number; null is a missing one."
        )
    return pa.array(numbers, pa.float64())


def _listed_features(rows: Sequence[Sequence[float] | None]) -> pa.Array:
    widths = {-1 if row is None else len(row) for row in rows}
    if len(widths) > 1 or 0 in widths:
        raise _invalid("Every event of a batch needs the same number of features, at least one.")
    try:
        return pa.array([[float(value) for value in row or ()] for row in rows], pa.list_(pa.float32()))
    except OverflowError:
        raise _invalid("A feature is too large for a 32-bit number.") from None


# --- Arrow -------------------------------------------------------------------------------------------


def _arrow(body: bytes, limit: int) -> pa.Table:
    try:
        batches = _read_arrow(body, limit)
        table = pa.Table.from_batches(batches) if batches else pa.table({})
        table.validate(full=True)  # offsets that point outside of their buffers
    except (*ARROW_ERRORS, OSError, ValueError, struct.error, IndexError) as error:
        first = str(error).partition("\n")[0]
        raise _invalid(f"The body is not a valid Arrow stream ({first[:200]}).") from None
    return _checked(table)


def _read_arrow(body: bytes, limit: int) -> list[pa.RecordBatch]:
    """Read the batches one by one; a compressed one could be any size once it is read."""
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if _is_compressed(message.metadata.to_pybytes()):
            raise _invalid("The Arrow stream is compressed; write it without compression.")
    batches, rows = [], 0
    with pa.ipc.open_stream(body) as reader:
        for batch in reader:
            rows += batch.num_rows
            check_batch(rows, limit)
            batches.append(batch)
    return batches


def _is_compressed(metadata: bytes) -> bool:
    """Return whether a message's record batch has the field ``compression``.

    ``metadata`` is a flatbuffer, ``Message`` of Arrow's format: field 1 is the type of the header, field 2
    the header; of a ``RecordBatch`` (type 3), field 3 is the compression, and a ``DictionaryBatch`` (type 2)
    has a record batch as field 1.
    """
    root = struct.unpack_from("<I", metadata, 0)[0]
    kind, header = _field(metadata, root, 1), _field(metadata, root, 2)
    if kind is None or header is None:
        return False
    batch: int | None = _follow(metadata, header)
    if metadata[kind] == 2:
        inner = _field(metadata, _follow(metadata, header), 1)
        batch = None if inner is None else _follow(metadata, inner)
    elif metadata[kind] != 3:
        return False
    return batch is not None and _field(metadata, batch, 3) is not None


def _follow(buffer: bytes, position: int) -> int:
    return position + int(struct.unpack_from("<I", buffer, position)[0])


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Return the position of a field of a flatbuffer table, None if it is not set."""
    entries = table - struct.unpack_from("<i", buffer, table)[0]
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", buffer, entries)[0]:
        return None
    offset = struct.unpack_from("<H", buffer, entries + place)[0]
    return table + offset if offset else None


def _checked(table: pa.Table) -> pa.Table:
    """Accept the columns of an event, of the types an event may have."""
    names = table.column_names
    if len(set(names)) < len(names) or not set(COLUMNS[:3]) <= set(names) <= set(COLUMNS):
        raise _invalid("The Arrow stream needs columns src, dst and t, and may have features; no others.")
    for name in names:
        if not _TYPES[name](table.schema.field(name).type):
            raise _invalid(
                f"The column {name} of the Arrow stream is of type {table.schema.field(name).type}."
            )
        if table.column(name).null_count:
            raise _invalid(f"The column {name} of the Arrow stream has missing values.")
    return table


def _id_type(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or _own_text(kind)


def _own_text(kind: pa.DataType) -> bool:
    """Return whether each value has bytes of its own; views may share them and grow when they are read."""
    return is_text(kind) and not str(kind).endswith("_view")


def _time_type(kind: pa.DataType) -> bool:
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return numbers or _own_text(kind) or pa.types.is_timestamp(kind)


def _feature_type(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields <= MOST_FEATURES and all(map(_value_type, kind))
    return is_list(kind) and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _value_type(field: pa.Field) -> bool:
    kind = field.type
    return pa.types.is_boolean(kind) or pa.types.is_floating(kind) or _id_type(kind)


_TYPES: dict[str, Callable[[pa.DataType], bool]] = {
    "src": _id_type,
    "dst": _id_type,
    "t": _time_type,
    "features": _feature_type,
}
_PARSERS: dict[str, Callable[[bytes, int], pa.Table]] = {JSON: _json, JSON_LINES: _json_lines, ARROW: _arrow}
