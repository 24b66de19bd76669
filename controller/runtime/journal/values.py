"""Encode values as JSON by the types of their fields, and decode them again.

Enums are their values, addresses and prefixes texts, tuples and sets lists, and a dataclass an object with its fields.
A field that is missing has its default; one that is unknown is refused, because a newer version has written it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_ADDRESSES = frozenset((IPv4Address, IPv6Address))
_PREFIXES = frozenset((IPv4Network, IPv6Network))
Decoder = Callable[[Any], Any]


def encode(value: object) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def decode(kind: Any, content: bytes) -> Any:
    """Return the value of a type; raises ValueError where the bytes hold no such value."""
    try:
        return _decoder(kind)(json.loads(content))
    except (TypeError, KeyError, AttributeError, RecursionError) as wrong:
        raise ValueError(f"no {kind}: {wrong}") from None


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    return str(value)


@cache
def _decoder(kind: Any) -> Decoder:
    """Return the function that makes a value of this type of what JSON holds."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union(inside)
    if origin is tuple and inside[-1] is Ellipsis:
        return _each(tuple, _decoder(inside[0]))
    if origin is tuple:
        return _listed(tuple, [_decoder(each) for each in inside])
    if origin is Mapping:
        return _mapping(_decoder(inside[1]))
    if origin is frozenset:
        return _each(frozenset, _decoder(inside[0]))
    if is_dataclass(kind):
        return _object(kind)
    if issubclass(kind, tuple):
        hints = get_type_hints(kind)
        return _listed(kind._make, [_decoder(hints[name]) for name in kind._fields])
    if kind is float:
        return float
    return kind if issubclass(kind, Enum) or kind in _ADDRESSES | _PREFIXES else _exact(kind)


def _union(inside: tuple[Any, ...]) -> Decoder:
    kinds = frozenset(inside) - {NoneType}
    if kinds == _ADDRESSES:
        only: Decoder = ip_address
    elif kinds == _PREFIXES:
        only = ip_network
    else:
        (one,) = kinds
        only = _decoder(one)
    return (lambda value: None if value is None else only(value)) if NoneType in inside else only


def _each(make: Callable[[Iterable[Any]], Any], item: Decoder) -> Decoder:
    return lambda values: make(map(item, values))


def _mapping(item: Decoder) -> Decoder:
    return lambda values: {name: item(value) for name, value in values.items()}


def _listed(make: Callable[[Iterable[Any]], Any], items: list[Decoder]) -> Decoder:
    return lambda values: make(item(value) for item, value in zip(items, values, strict=True))


def _object(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    known = {field.name: _decoder(hints[field.name]) for field in fields(kind)}
    return lambda values: kind(**{name: known[name](value) for name, value in values.items()})


def _exact(kind: type) -> Decoder:
    def checked(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{value!r} is no {kind.__name__}")
        return value

    return checked
