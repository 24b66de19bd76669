"""Build and parse the contract's MQTT topics.

    heddle/v1/FABRIC/switch/SWITCH/ports     a PortSampleBatch of one switch's ports
    heddle/v1/FABRIC/host/HOST/nics          likewise of a host's NICs
    heddle/v1/FABRIC/agent/AGENT/status      `online` or `offline`, retained, `offline` as the last will

Ids are those of fabric files: none contains a slash, a plus or a hash sign.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "heddle/v1"
ONLINE, OFFLINE = b"online", b"offline"
MAX_TOPIC_BYTES = 256

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


class Source(StrEnum):
    """The kind of device or program that a topic belongs to."""

    SWITCH = "switch"
    HOST = "host"
    AGENT = "agent"


_LAST = {Source.SWITCH: "ports", Source.HOST: "nics", Source.AGENT: "status"}
_SOURCES = {(str(source), last): source for source, last in _LAST.items()}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the contract: fabric, kind, and the switch, host or agent."""

    fabric: str
    source: Source
    name: str

    def __str__(self) -> str:
        return f"{PREFIX}/{self.fabric}/{self.source}/{self.name}/{_LAST[self.source]}"


def ports_topic(fabric: str, switch: str) -> str:
    """Return the topic of a switch's samples; raises ValueError for an invalid id."""
    return _built(fabric, Source.SWITCH, switch)


def nics_topic(fabric: str, host: str) -> str:
    """Return the topic of a host's samples; raises ValueError for an invalid id."""
    return _built(fabric, Source.HOST, host)


def status_topic(fabric: str, agent: str) -> str:
    """Return the topic of an agent's status; raises ValueError for an invalid id."""
    return _built(fabric, Source.AGENT, agent)


def subscriptions(fabric: str) -> tuple[tuple[str, int], ...]:
    """Return the contract's subscriptions of a collector: topic filter and quality of service."""
    return tuple((f"{PREFIX}/{fabric}/{source}/+/{_LAST[source]}", int(source is Source.AGENT)) for source in Source)


def parse(text: str) -> Topic | None:
    """Parse a topic; None if it is not one of the contract."""
    if len(text) > MAX_TOPIC_BYTES:
        return None
    parts = text.split("/")
    if len(parts) != 6 or "/".join(parts[:2]) != PREFIX:
        return None
    source = _SOURCES.get((parts[3], parts[5]))
    if source is None or not _ID.match(parts[2]) or not _ID.match(parts[4]):
        return None
    return Topic(parts[2], source, parts[4])


def _built(fabric: str, source: Source, name: str) -> str:
    for part in (fabric, name):
        if not _ID.match(part):
            raise ValueError(f"{part!r} is not valid in a topic: ids match [A-Za-z0-9][A-Za-z0-9._-]{{0,62}}")
    return str(Topic(fabric, source, name))
