"""Read and write the execution traces of MLCommons' Chakra: a file per rank of length-delimited protobuf messages.

A file begins with `GlobalMetadata`, then has a `Node` per operation; each message follows its length as a varint.
Names, numbers and types of the fields are those of the schema (mlcommons/chakra, schema/protobuf/et_def.proto); here
stand those that say what is communicated and in which order. Unknown fields are skipped, as protobuf has it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from heddle.controller.model.error import InputError

SEND, RECEIVE, COLLECTIVE = 5, 6, 7
"""`NodeType`s of communication."""
VERSION = "0.0.4"
MAX_NODES = 1_000_000
"""Nodes of one file; a file with more is refused."""
_MAX_MESSAGE_BYTES = 16_000_000
_TYPES = {"uint64": 4, "string": 9, "enum": 5, "message": 11, "int64": 3, "int32": 5, "uint32": 13, "bool": 8}
_VALUES = {
    "int32_val": (7, "int32"), "int64_val": (9, "int64"), "uint32_val": (11, "uint32"), "uint64_val": (13, "uint64"),
    "bool_val": (27, "bool"), "string_val": (29, "string"),
}  # fmt: skip
"""Values of an attribute that are read: field number and type."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operation of a rank; `attributes` hold the values of its attributes by name, `after` its dependencies."""

    id: int
    name: str
    type: int
    after: tuple[int, ...] = ()
    attributes: Mapping[str, int | str | bool] = field(default_factory=dict)


def _message(file: Any, name: str, fields: Sequence[tuple[str, int, str, str]]) -> None:
    """Add a message; a field is name, number, type (or the name of a message) and "" or "repeated"."""
    message = file.message_type.add(name=name)
    for label, number, kind, repeated in fields:
        added = message.field.add(name=label, number=number, label=3 if repeated else 1)
        added.type = _TYPES.get(kind, _TYPES["message"])
        if kind not in _TYPES:
            added.type_name = f".{file.package}.{kind}"


def _schema() -> tuple[Any, Any]:
    """Return the message classes `GlobalMetadata` and `Node`."""
    file: Any = descriptor_pb2.FileDescriptorProto(name="chakra.proto", package="heddle.chakra", syntax="proto3")
    values = [(name, number, kind, "") for name, (number, kind) in _VALUES.items()]
    _message(file, "AttributeProto", [("name", 1, "string", ""), *values])
    for added in file.message_type[0].field[1:]:  # each value is in one oneof, so that 0 differs from none
        added.oneof_index = 0
    file.message_type[0].oneof_decl.add(name="value")
    _message(file, "GlobalMetadata", [("version", 1, "string", ""), ("attr", 2, "AttributeProto", "repeated")])
    _message(
        file,
        "Node",
        [
            ("id", 1, "uint64", ""), ("name", 2, "string", ""), ("type", 3, "enum", ""),
            ("ctrl_deps", 4, "uint64", "repeated"), ("data_deps", 5, "uint64", "repeated"),
            ("attr", 10, "AttributeProto", "repeated"),
        ],
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = message_factory.GetMessageClassesForFiles(["chakra.proto"], pool)
    return found["heddle.chakra.GlobalMetadata"], found["heddle.chakra.Node"]


def read_nodes(data: bytes, name: str) -> list[Node]:
    """Return the nodes of a rank's file, in its order; raises InputError with `name` and the place."""
    metadata, node = _schema()
    found = []
    for index, (offset, message) in enumerate(_messages(data, name)):
        kind = node if index else metadata
        try:
            read = kind.FromString(message)
        except DecodeError:
            raise InputError(f"{name}: byte {offset}: no {'node' if index else 'metadata'} of a Chakra trace") from None
        if index:
            found.append(Node(read.id, read.name, read.type, (*read.ctrl_deps, *read.data_deps), _attributes(read)))
        if len(found) > MAX_NODES:
            raise InputError(f"{name}: more than {MAX_NODES:,} nodes")
    if not data:
        raise InputError(f"{name}: is empty; a Chakra trace begins with its metadata")
    return found


def _attributes(node: Any) -> dict[str, int | str | bool]:
    return {each.name: getattr(each, kind) for each in node.attr if (kind := each.WhichOneof("value"))}


def _messages(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each message."""
    offset = 0
    while offset < len(data):
        size, begin = _varint(data, offset, name)
        if size > _MAX_MESSAGE_BYTES or begin + size > len(data):
            raise InputError(
                f"{name}: byte {offset}: a message of {size:,} bytes, the file has {len(data) - begin:,} more"
            )
        yield offset, data[begin : begin + size]
        offset = begin + size


def _varint(data: bytes, offset: int, name: str) -> tuple[int, int]:
    """Return the number that begins at an offset, and the offset behind it."""
    value = 0
    for index, byte in enumerate(data[offset : offset + 10]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, offset + index + 1
    raise InputError(f"{name}: byte {offset}: no length of a message; is this a Chakra trace (.et)?")


def written(nodes: Iterable[Node]) -> bytes:
    """Return the file of a rank with these nodes."""
    metadata, kind = _schema()
    found = [metadata(version=VERSION).SerializeToString()]
    for node in nodes:
        message = kind(id=node.id, name=node.name, type=node.type, data_deps=node.after)
        for name, value in node.attributes.items():
            added = message.attr.add(name=name)
            setattr(added, _field_of(value), value)
        found.append(message.SerializeToString())
    return b"".join(_length(len(message)) + message for message in found)


def _field_of(value: int | str | bool) -> str:
    if isinstance(value, bool):
        return "bool_val"
    return "string_val" if isinstance(value, str) else "int64_val"


def _length(size: int) -> bytes:
    found = bytearray()
    while size >= 0x80:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    found.append(size)
    return bytes(found)
