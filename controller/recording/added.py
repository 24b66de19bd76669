"""List what recorded classes have got since recordings were first written, so that those of before are still read.

A field that is added has a default and is the last of its class: a value of a recording without it gets the default.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

_EVENT, _NETWORKS = "controller.model.event", "controller.brain.networks.state"
FIELDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    (_EVENT, "GatewayUp"): ("ports",),
    (_EVENT, "GatewayAcked"): ("kept", "unknown"),
    (_NETWORKS, "Gateway"): ("ports", "kept", "unknown", "known_since"),
    (_NETWORKS, "Waiting"): ("vpcs",),
    (_NETWORKS, "Networks"): ("known_since", "has_border", "is_pending"),
    ("dataplane.config.desired", "Desired"): ("known_since", "has_border", "ended", "unknown", "refused"),
}
"""By the name of a class in recordings: its added fields."""
CLASSES = frozenset({(_EVENT, "DropUnknownVpcs"), ("dataplane.config.network", "GatewayPort")})
"""The names of added classes."""


def with_defaults(kind: type, added: tuple[str, ...]) -> type:
    """Return a class that makes instances of `kind`, a dataclass, which have the defaults of added fields already."""
    defaults = {field.name: _default(field) for field in fields(kind) if field.name in added}

    class Extended:
        def __new__(cls) -> Any:
            made: Any = object.__new__(kind)
            for name, default in defaults.items():
                object.__setattr__(made, name, default)
            return made

    return Extended


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
