"""Check values of a YAML file that become a protobuf message, where protobuf reads more than the other files allow."""

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from heddle.controller.config.text.complaint import number_hint, shown
from heddle.controller.config.text.document import is_of_another_base
from heddle.controller.model.admission import Problem

_INTEGERS = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)


def misread_numbers(values: Mapping[str, Any], message: Descriptor, path: str) -> Iterator[Problem]:
    """Yield texts such as `0100` at fields of whole numbers: protobuf reads them as decimal, YAML 1.1 as octal."""
    for key, value in values.items():
        field = message.fields_by_name.get(key) or message.fields_by_camelcase_name.get(key)
        if field is None:
            continue
        for at, each in enumerate(value if isinstance(value, list) else [value]):
            place = f"{path}.{key}" + (f"[{at}]" if isinstance(value, list) else "")
            if isinstance(each, dict) and field.message_type is not None:
                yield from misread_numbers(each, field.message_type, place)
            elif isinstance(each, str) and field.cpp_type in _INTEGERS and is_of_another_base(each):
                yield Problem(place, f"must be a whole number, is {shown(each)}{number_hint(each)}")
