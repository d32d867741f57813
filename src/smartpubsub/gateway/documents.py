"""The OpenAPI and AsyncAPI documents, written from the declared operations and messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from importlib import metadata
from typing import Any

import msgspec

from smartpubsub.gateway import websocket
from smartpubsub.gateway.cloudevents import BATCH, STRUCTURED, CloudEvent
from smartpubsub.gateway.operations import EVENT_STREAM, JSON, Operation
from smartpubsub.gateway.problems import MEDIA_TYPE, Problem

OPENAPI_VERSION = "3.2.0"
ASYNCAPI_VERSION = "3.1.0"
ALWAYS = (400, 401, 403, 413, 421, 429)
"""The problems that every operation can have."""

_REF = "#/components/schemas/{name}"
_BINARY = {"type": "string", "format": "binary"}


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """The OpenAPI document."""
    types: list[Any] = [Problem, CloudEvent]
    for operation in operations:
        types.extend(t for t in (operation.result, operation.body) if t not in (None, bytes))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = {repr(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for operation in operations:
        described = _operation(operation, schema_of)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": OPENAPI_VERSION,
        "info": _info("The HTTP gateway of a SmartPubSub node."),
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _info(description: str) -> dict[str, str]:
    return {
        "title": "SmartPubSub",
        "version": metadata.version("smartpubsub"),
        "description": description,
    }


def _operation(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": {
            str(operation.status): _result(operation, schema_of),
            **{str(status): _problem(status) for status in (*ALWAYS, *operation.problems)},
        },
    }
    if operation.scope is not None:
        described["security"] = [{}, {"bearer": [operation.scope.value]}]
    if operation.body is bytes:
        described["requestBody"] = {"content": _event_bodies(), "required": False}
    elif operation.body is not None:
        content = {JSON: {"schema": schema_of[repr(operation.body)]}}
        described["requestBody"] = {"content": content, "required": True}
        described["responses"]["415"] = _problem(415)
    return described


def _event_bodies() -> dict[str, Any]:
    return {
        "application/octet-stream": {"schema": _BINARY},
        STRUCTURED: {"schema": {"type": "object"}},
        BATCH: {"schema": {"type": "array", "items": {"type": "object"}}},
    }


def _result(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    if operation.result is not None:
        described["content"] = {JSON: {"schema": schema_of[repr(operation.result)]}}
    elif operation.media_type == EVENT_STREAM:
        described["content"] = {EVENT_STREAM: {"schema": {"type": "string"}}}
    elif operation.status != HTTPStatus.NO_CONTENT:
        described["content"] = {operation.media_type.partition(";")[0]: {"schema": _BINARY}}
    return described


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="Problem")}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": schema}},
    }


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    (schema,), components = msgspec.json.schema_components([operation.query], ref_template=_REF)
    found = components[schema["$ref"].rpartition("/")[2]]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in found.get("required", ()),
            "schema": _without_null(of),
        }
        for name, of in found["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from a schema: an optional parameter is omitted, never null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if not kinds:
        return schema
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    return {**rest, **kinds[0]} if len(kinds) == 1 else {**rest, "anyOf": kinds}


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI document: the WebSocket."""
    sent = (websocket.Authenticate, websocket.Subscribe, websocket.Unsubscribe)
    types = [*sent, websocket.Answer, websocket.EventMessage]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    messages = {
        kind.__name__: {"name": kind.__name__, "payload": schema}
        for kind, schema in zip(types, schemas, strict=True)
    }
    channel = {"$ref": "#/channels/events"}

    def operation(action: str, names: Sequence[str]) -> dict[str, Any]:
        references = [{"$ref": f"#/channels/events/messages/{name}"} for name in names]
        return {"action": action, "channel": channel, "messages": references}

    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": _info("The WebSocket of a SmartPubSub node's gateway."),
        "channels": {"events": {"address": "/v1/socket", "messages": messages}},
        "operations": {
            "tell": operation("receive", [kind.__name__ for kind in sent]),
            "hear": operation("send", ["Answer", "EventMessage"]),
        },
        "components": {"schemas": components},
    }
