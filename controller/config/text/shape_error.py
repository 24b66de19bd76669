"""Translate pydantic's errors: the key path, what is wrong, and the remedy."""

import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from heddle.controller.config.text.complaint import MAX_LINES, number_hint, place, shown
from heddle.controller.model.admission import Problem
from heddle.controller.model.suggest import did_you_mean, nearest

Path = tuple[int | str, ...]

_MUST_BE = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def shape_problems(error: ValidationError, root: type[BaseModel]) -> list[Problem]:
    """Return one problem per error, in the order of the file; only those that will be shown have a text."""
    found = error.errors(include_url=False)
    mistyped = _mistyped(found, root)
    shown_errors = [one for one in found if not (one["type"] == "missing" and one["loc"] in mistyped)]
    return [
        Problem(place(one["loc"]), _text_of(one, root)) if i < MAX_LINES else Problem("", "")
        for i, one in enumerate(shown_errors)
    ]


def _mistyped(found: Sequence[ErrorDetails], root: type[BaseModel]) -> set[Path]:
    """Return the missing keys whose mistyped name is in the file: one mistake is one line."""
    missing = {one["loc"] for one in found if one["type"] == "missing"}
    if not missing:
        return set()
    unknown = [one["loc"] for one in found if one["type"] == "extra_forbidden"][:MAX_LINES]
    return {
        (*path[:-1], key)
        for path in unknown
        if (key := nearest(str(path[-1]), _keys_at(path[:-1], root))) is not None and (*path[:-1], key) in missing
    }


def _text_of(found: ErrorDetails, root: type[BaseModel]) -> str:
    kind, value = found["type"], found["input"]
    context = found.get("ctx", {})
    match kind:
        case "extra_forbidden":
            return _unknown_key(found["loc"], root)
        case "missing":
            return "missing, it is required"
        case "heddle":
            return str(context["text"])
        case "literal_error":
            choices = [name.strip("'") for name in _choices(found["loc"], root)]
            guess = did_you_mean(value, choices) if isinstance(value, str) else ""
            return f"must be one of {', '.join(choices)}, is {shown(value)}{guess}"
        case "greater_than_equal" | "greater_than":
            least = context["ge"] if kind == "greater_than_equal" else f"more than {context['gt']}"
            return f"must be {'at least ' if kind == 'greater_than_equal' else ''}{least}, is {shown(value)}"
        case "less_than_equal":
            return f"must be at most {context['le']}, is {shown(value)}"
        case "finite_number":
            return f"must be a finite number, is {shown(value)}"
        case "too_short":
            return "must not be empty"
        case "string_too_long":
            return f"longer than {context['max_length']} characters"
    if kind in _MUST_BE:
        return f"must be {_MUST_BE[kind]}, is {shown(value)}{_empty_hint(kind, value)}{_quote_hint(kind, value)}"
    return str(found["msg"])


def _quote_hint(kind: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "; put it in quotes"
    return number_hint(value) if kind in ("int_type", "float_type") else ""


def _empty_hint(kind: str, value: object) -> str:
    if value is not None:
        return ""
    return "; leave the key out, or write []" if kind == "list_type" else "; leave the key out, or give it a value"


def _unknown_key(path: Path, root: type[BaseModel]) -> str:
    keys = _keys_at(path[:-1], root)
    guess = did_you_mean(str(path[-1]), keys)
    return f"unknown key{guess}" if guess else f"unknown key; the keys here are {', '.join(keys)}"


def _annotation_at(path: Path, root: type[BaseModel]) -> Any:
    """Return the declared type of the value at a path."""
    at: Any = root
    for step in path:
        at = _within(at)
        if isinstance(step, int):
            at = typing.get_args(at)[0]
        elif typing.get_origin(at) is dict:
            at = typing.get_args(at)[1]
        else:
            at = next(field.annotation for name, field in at.model_fields.items() if step in (name, field.alias))
    return _within(at)


def _within(annotation: Any) -> Any:
    """Return T for `T | None`."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return next(one for one in typing.get_args(annotation) if one is not type(None))
    return annotation


def _keys_at(path: Path, root: type[BaseModel]) -> list[str]:
    """Return the keys of the mapping at a path."""
    return [field.alias or name for name, field in _annotation_at(path, root).model_fields.items()]


def _choices(path: Path, root: type[BaseModel]) -> tuple[str, ...]:
    return tuple(str(one) for one in typing.get_args(_annotation_at(path, root)))
