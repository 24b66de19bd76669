"""The types of single keys that the fabric and jobs files share, and the base of their pydantic models.

Types are strict: a text is no number, and `true` is not 1. Each type converts a YAML value to that of the model
(a rate to bit/s, a port to a `PortRef`) or raises an error that names what belongs there.
"""

import ipaddress
import math
import re
from collections.abc import Callable
from typing import Annotated, NoReturn

from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

from heddle.controller.config.text.complaint import number_hint, shown
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.limit import MAX_CABLE_BPS, MAX_NIC_BPS, MAX_PORT_NUMBER

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_PORT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,62}):([1-9][0-9]{0,4})\Z")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}\Z")


class Shape(BaseModel):
    """The base of all models of files: unknown keys and values of another type are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


def refuse(text: str) -> NoReturn:
    """Raise a pydantic error with this text for the value that is being validated."""
    raise PydanticCustomError("heddle", "{text}", {"text": text})


def _text(value: object, example: str) -> str:
    if not isinstance(value, str):
        hint = "" if value is None or isinstance(value, list | dict) else "; put it in quotes"
        refuse(f"must be a text such as {example}, is {shown(value)}{hint}")
    return value


def _id(value: object) -> str:
    text = _text(value, '"leaf1"')
    if not _ID.match(text):
        refuse(
            f"{shown(text)} is no id: a letter or digit, then up to 62 letters, digits, dots, underscores or hyphens"
        )
    return text


def _port(value: object) -> PortRef:
    text = _text(value, '"leaf1:33"')
    found = _PORT.match(text)
    if not found or int(found[2]) > MAX_PORT_NUMBER:
        refuse(f'{shown(text)} is no switch port: write "switch:number", number from 1 to {MAX_PORT_NUMBER}')
    return PortRef(found[1], int(found[2]))


def _ip(value: object) -> int:
    text = _text(value, '"10.0.0.1"')
    try:
        ip = int(ipaddress.IPv4Address(text))
    except ValueError:
        refuse(f"{shown(text)} is no IPv4 address such as 10.0.0.1")
    if not 1 <= ip >> 24 <= 223 or ip >> 24 == 127:
        refuse(
            f"{text} is no address of a host: it must be unicast, from 1.0.0.0 to 223.255.255.255 without 127.0.0.0/8"
        )
    return ip


def _mac(value: object) -> int:
    text = _text(value, '"02:00:00:00:00:01"')
    if not _MAC.match(text):
        refuse(f"{shown(text)} is no MAC address such as 02:00:00:00:00:01")
    mac = int(text.replace(":", ""), 16)
    if mac == 0 or mac >> 40 & 1:
        refuse(f"{text} is no MAC address of a NIC: it must be unicast (the first octet even) and not zero")
    return mac


def _version(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value != 1:
        refuse(f"must be 1, is {shown(value)}: this program reads version 1 of the file")
    return value


def _rate(max_bps: int) -> Callable[[object], int]:
    max_gbps = max_bps // 10**9

    def bits_per_second(value: object) -> int:
        """Convert Gbit/s to whole bit/s."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            refuse(f"must be a number of Gbit/s, is {shown(value)}{number_hint(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            refuse(f"must be a finite number of Gbit/s, is {shown(value)}")
        if value <= 0:
            refuse(f"must be more than 0 Gbit/s, is {shown(value)}; write the rate, such as 100 or 0.02")
        if value > max_gbps:
            refuse(f"at most {max_gbps:,} Gbit/s, is {shown(value)}")
        rate_bps = round(value * 10**9)
        if rate_bps == 0:
            refuse(f"must be at least 1 bit/s (0.000000001), is {shown(value)}")
        return rate_bps

    return bits_per_second


Id = Annotated[str, PlainValidator(_id)]
Port = Annotated[PortRef, PlainValidator(_port)]
Ip = Annotated[int, PlainValidator(_ip)]
Mac = Annotated[int, PlainValidator(_mac)]
NicRate = Annotated[int, PlainValidator(_rate(MAX_NIC_BPS))]
CableRate = Annotated[int, PlainValidator(_rate(MAX_CABLE_BPS))]
Uint32 = Annotated[int, Field(ge=0, le=2**32 - 1)]
Uint64 = Annotated[int, Field(ge=0, le=2**64 - 1)]
Version = Annotated[int, PlainValidator(_version)]
