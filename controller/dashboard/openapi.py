"""The OpenAPI document of the HTTP interface, made of the declarations that the routes are made of."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from heddle.controller.dashboard.documents.shapes import jobs as jobs_shapes
from heddle.controller.dashboard.documents.shapes import requests as requests_shapes
from heddle.controller.dashboard.documents.shapes import state as state_shapes
from heddle.controller.dashboard.documents.text import json_text
from heddle.controller.dashboard.parameters import Parameter
from heddle.controller.dashboard.routes import MEDIA_TYPE, STATUSES, Document

VERSION = "3.1.0"
_REFS = "#/components/schemas/{model}"
POSTS = {
    "/api/login": ("Log in", requests_shapes.LoginRequest, requests_shapes.Session),
    "/api/logout": ("Log out", None, requests_shapes.Session),
    "/api/actions/drain": (
        "Drain a link or a switch, or return it",
        requests_shapes.DrainRequest,
        requests_shapes.Done,
    ),
    "/api/actions/release": ("End a job", requests_shapes.ReleaseRequest, requests_shapes.Done),
    "/api/actions/preview": ("Plan a job without submitting it", requests_shapes.PreviewRequest, jobs_shapes.Preview),
}
"""Summary, body and reply of what changes something, or needs a body."""
_GETS = {
    "/api/state": ("What changes", state_shapes.StateOf),
    "/api/session": ("Who the caller is", requests_shapes.Session),
}


def openapi_text(documents: Sequence[Document]) -> str:
    """Return the document as JSON."""
    return json_text(openapi_document(documents))


def openapi_document(documents: Sequence[Document]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for each in documents:
        parameters = [_parameter(one, "path") for one in each.in_path] + [
            _parameter(one, "query") for one in each.in_query
        ]
        paths[each.path] = {"get": _operation(each.summary, each.shape, schemas) | {"parameters": parameters}}
    for path, (summary, shape) in _GETS.items():
        paths[path] = {"get": _operation(summary, shape, schemas)}
    paths["/api/stream"] = {"get": _stream(schemas)}
    for path, (summary, body, reply) in POSTS.items():
        paths[path] = {"post": _operation(summary, reply, schemas) | _body(body, schemas)}
    _operation("", requests_shapes.Refusal, schemas)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Heddle",
            "version": "1",
            "description": "Ids are those of the fabric file and of the gRPC API.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(summary: str, shape: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    errors = {str(status) for status in (*STATUSES.values(), 401, 403)}
    refusal = {"description": "Refused", "content": _content(requests_shapes.Refusal, schemas)}
    done = {"description": summary, "content": _content(shape, schemas)}
    return {"summary": summary, "responses": {"200": done, **dict.fromkeys(sorted(errors), refusal)}}


def _stream(schemas: dict[str, Any]) -> dict[str, Any]:
    text = (
        "Server-sent events. `state`: the whole state (StateOf), with the id BOOT-SEQUENCE; `timeline`: a list of new "
        "events (TimelineEvent). A Last-Event-ID of the newest state is answered with the next one, any other at once."
    )
    _content(state_shapes.TimelineEvent, schemas)
    return {
        "summary": "The state whenever it changes",
        "description": text,
        "responses": {
            "200": {"description": "A stream", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
        },
    }


def _body(shape: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    token = {
        "name": "X-CSRF-Token", "in": "header", "required": False, "schema": {"type": "string"},
        "description": "`csrf` of /api/session; required by all but /api/login",
    }  # fmt: skip
    found: dict[str, Any] = {"parameters": [token]}
    if shape is not None:
        found["requestBody"] = {"required": True, "content": _content(shape, schemas)}
    return found


def _content(shape: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a media type with a reference to a shape's schema, which is added to `schemas`."""
    schema = TypeAdapter(shape).json_schema(ref_template=_REFS)
    schemas.update(schema.pop("$defs", {}))
    name = shape.__name__
    if "$ref" not in schema:
        schemas[name] = schema
    return {MEDIA_TYPE: {"schema": {"$ref": _REFS.format(model=name)}}}


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": place,
        "description": parameter.text,
        "required": place == "path" or parameter.is_required,
        "schema": parameter.schema(),
    }
