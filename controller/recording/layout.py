"""Describe the classes of a recording in the recording itself, so that a later version knows whether it can read it.

A class that has come since, or a field with a default at the end of one, changes nothing for what was recorded before.
"""

import enum
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeGuard

from heddle.controller.brain.durable import TYPES
from heddle.controller.recording.pickling import recorded_classes

Layout = Mapping[str, tuple[str, ...]]
"""The fields of each recorded class in order, those of an enum with their values, and the tables of the journal."""
TABLES = "tables of the journal"


@lru_cache
def layout() -> Layout:
    """Return the layout of today, with classes by their recorded names."""
    return {**{name: _fields(kind) for name, kind in _classes().items()}, TABLES: tuple(TYPES)}


def is_layout(record: object) -> TypeGuard[Layout]:
    """Return whether a record of a file, which may hold anything, is a layout."""
    return (
        isinstance(record, dict)
        and TABLES in record
        and all(isinstance(name, str) and _is_words(words) for name, words in record.items())
    )


def _is_words(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(word, str) for word in value)


def misfits(recorded: Layout) -> list[str]:
    """Return the recorded classes that are not read today: gone, or with other fields than some more with defaults."""
    known = _classes()
    return [
        name for name, words in recorded.items() if name != TABLES and not (name in known and _fits(words, known[name]))
    ]


def shorter(recorded: Layout) -> Mapping[type, int]:
    """Return how many fields the classes had that have got some since; of those that are written field by field."""
    known = _classes()
    return {
        known[name]: len(words)
        for name, words in recorded.items()
        if _is_by_field(known.get(name)) and len(words) < len(_fields(known[name]))
    }


def _is_by_field(kind: Any) -> bool:
    """Return whether pickles hold the fields of a class in order: of named tuples, and dataclasses with slots."""
    return hasattr(kind, "_fields") or (is_dataclass(kind) and hasattr(kind, "__slots__"))


def tables_since(tables: tuple[str, ...] | frozenset[str]) -> frozenset[str]:
    """Return the tables that the journal has besides these, which decisions of then do not name."""
    return frozenset(TYPES) - frozenset(tables)


def _fits(words: tuple[str, ...], kind: Any) -> bool:
    now = _fields(kind)
    if isinstance(kind, enum.EnumMeta):  # its members are read by value
        return set(words) <= set(now)
    return now[: len(words)] == words and _with_default(kind).issuperset(now[len(words) :])


@lru_cache
def _classes() -> Mapping[str, Any]:
    return {".".join(name): kind for name, kind in sorted(recorded_classes().items())}


def _fields(kind: Any) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    if isinstance(kind, enum.EnumMeta):
        return tuple(f"{member.name}={member.value}" for member in kind)  # type: ignore[var-annotated]
    return tuple(getattr(kind, "_fields", ()))


def _with_default(kind: Any) -> set[str]:
    if not is_dataclass(kind):
        return set(getattr(kind, "_field_defaults", ()))
    return {each.name for each in fields(kind) if (each.default, each.default_factory) != (MISSING, MISSING)}
