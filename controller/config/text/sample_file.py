"""Render a sample config file: every key of a pydantic model with its description and default.

A key without a default has its example. An optional key without a value is a comment with its example.
"""

import textwrap
import types
import typing
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

WIDTH = 110


def sample(head: str, root: type[BaseModel]) -> str:
    """Return the file, `head` as its first comment."""
    lines = [f"# {head}", *_section(root)]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _section(section: type[BaseModel]) -> Iterator[str]:
    for key, field in section.model_fields.items():
        yield from textwrap.wrap(field.description or "", WIDTH, initial_indent="# ", subsequent_indent="#   ")
        yield from _key(field.alias or key, field)


def _key(key: str, field: FieldInfo) -> Iterator[str]:
    inner, listed = _model_of(field.annotation)
    if inner is None:
        default = field.get_default(call_default_factory=True)
        value = field.examples[0] if field.is_required() and field.examples else default
        yield f"{key}: {_written(value)}" + (
            f"  # {_written(field.examples[0])}" if value is None and field.examples else ""
        )
        return
    optional = field.get_default(call_default_factory=True) in (None, []) and not field.is_required()
    body = list(_section(inner))
    if listed:
        first = next(i for i, line in enumerate(body) if not line.startswith("#"))
        body = [f"    {line}" for line in body]
        body[first] = f"  - {body[first][4:]}"
    else:
        body = [f"  {line}" for line in body]
    whole = [f"{key}:", *body]
    yield from (f"# {line}" for line in whole) if optional else whole


def _model_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Return the model of a section, and whether it is a list of them; None for a plain value."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return next((found for one in typing.get_args(annotation) if (found := _model_of(one))[0]), (None, False))
    if typing.get_origin(annotation) is list:
        return _model_of(typing.get_args(annotation)[0])[0], True
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return (annotation if is_model else None), False


def _written(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
