"""The table of every method that is served: which roles may call it, whether it changes anything, and what it is about.

The rows of Heddle's services are the option `heddle.v1.access` of each method in the proto, those of others stand here.
What is not in the table, and a method without the option, is denied. A tenant's calls concern its own objects, within
its quota (`scope.py`); a gateway or agent speaks for itself alone.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from google.protobuf.descriptor import MethodDescriptor

from heddle.foundation.identity import Role
from heddle.v1 import heddle_pb2 as pb


class Row(NamedTuple):
    """The roles that may call a method; `mutates` is whether each call is audited.

    `object` are the fields of the request that name what a call is about, each with the fields that it lies in before
    it, and dots between.
    """

    roles: frozenset[Role]
    mutates: bool = False
    object: tuple[str, ...] = ()


_READER = frozenset({Role.OPERATOR, Role.TENANT, Role.VIEWER})
_ANY = _READER | {Role.AGENT, Role.GATEWAY, Role.CONTROLLER}


def _own() -> Iterator[tuple[str, Row]]:
    for service in pb.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            yield f"/{service.full_name}/{method.name}", _row(method)


def _row(method: MethodDescriptor) -> Row:
    option: pb.Access = method.GetOptions().Extensions[pb.access]  # type: ignore[index]  # protoc types no extension
    roles = frozenset(Role[pb.Access.Role.Name(role)] for role in option.roles)
    return Row(roles, option.mutates, tuple(option.object))


ROWS: Mapping[str, Row] = {
    **dict(_own()),
    "/grpc.health.v1.Health/Check": Row(_ANY),
    "/grpc.health.v1.Health/List": Row(_ANY),
    "/grpc.health.v1.Health/Watch": Row(_ANY),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Row(_READER),
}

_DENIED = Row(frozenset())


def row_of(method: str) -> Row:
    """Return the row of a method; one that no role may call where it has none."""
    return ROWS.get(method, _DENIED)
