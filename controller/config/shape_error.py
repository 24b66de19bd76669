"""Pydantic's findings in our words: where, what is wrong, what belongs there."""

import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from controller.config.complaint import MOST_LINES, place, shown
from controller.model.admission import Problem
from controller.model.suggest import did_you_mean

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
    """Return one problem per finding, in the order of the file; the remedies are written for those that are told."""
    found = error.errors(include_url=False)
    return [Problem(place(one["loc"]), _text_of(one, root) if i < MOST_LINES else "") for i, one in enumerate(found)]


def _text_of(found: Mapping[str, Any], root: type[BaseModel]) -> str:
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
        case "too_short":
            return "must not be empty"
        case "string_too_long":
            return f"longer than {context['max_length']} characters"
    if kind in _MUST_BE:
        hint = "; put it in quotes" if kind == "string_type" and not isinstance(value, list | dict | None) else ""
        return f"must be {_MUST_BE[kind]}, is {shown(value)}{_empty_hint(kind, value)}{hint}"
    return str(found["msg"])


def _empty_hint(kind: str, value: object) -> str:
    if value is not None:
        return ""
    return "; leave the key out, or write []" if kind == "list_type" else "; leave the key out, or give it a value"


def _unknown_key(path: tuple[int | str, ...], root: type[BaseModel]) -> str:
    shape = _shape_at(path[:-1], root)
    if shape is None:
        return "unknown key"
    keys = [field.alias or name for name, field in shape.model_fields.items()]
    guess = did_you_mean(str(path[-1]), keys)
    return f"unknown key{guess}" if guess else f"unknown key; the keys here are {', '.join(keys)}"


def _annotation_at(path: tuple[int | str, ...], root: type[BaseModel]) -> Any:
    """Return the declared type of the value at a path."""
    at: Any = root
    for step in path:
        at = _within(at)
        if isinstance(step, int):
            at = typing.get_args(at)[0]
        else:
            at = next(field.annotation for name, field in at.model_fields.items() if step in (name, field.alias))
    return _within(at)


def _within(annotation: Any) -> Any:
    """Return T for `T | None`."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return next(one for one in typing.get_args(annotation) if one is not type(None))
    return annotation


def _shape_at(path: tuple[int | str, ...], root: type[BaseModel]) -> type[BaseModel] | None:
    found = _annotation_at(path, root)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _choices(path: tuple[int | str, ...], root: type[BaseModel]) -> tuple[str, ...]:
    return tuple(str(one) for one in typing.get_args(_annotation_at(path, root)))
