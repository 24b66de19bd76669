"""Write the configuration of a mosquitto that only a fabric's agents and controllers reach, each by its certificate.

A user is the common name of a certificate, `agent:leaf1`. Each agent has a stanza with the topics of its own switch or
host. There are no patterns: with `%u`, a tenant whose name is a switch's would get that switch's topics.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.foundation.identity import Identity, Role
from heddle.telemetry.samples.sample import MAX_PAYLOAD_BYTES
from heddle.telemetry.samples.topic import nics_topic, ports_topic, status_topic, subscriptions

CONFIG, ACCESS = "mosquitto.conf", "mosquitto.acl"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFiles:
    """Where the broker listens, and its PEM files; `revoked` is a CRL of the authority, None for none."""

    address: str
    port: int
    certificate: Path
    key: Path
    ca: Path
    revoked: Path | None = None


def mosquitto_config(fabric: Fabric, files: BrokerFiles, access: Path) -> str:
    """Return mosquitto.conf for a file of access rules; raises InputError for a path that it cannot express."""
    paths = {"cafile": files.ca, "certfile": files.certificate, "keyfile": files.key, "crlfile": files.revoked}
    lines = [
        f"# The broker of fabric {fabric.name}; written by `heddle mqtt config`, which docs/telemetry.md describes.",
        f"listener {files.port} {files.address}",
        *(f"{key} {_path(path)}" for key, path in paths.items() if path is not None),
        "tls_version tlsv1.2",
        "require_certificate true",
        "# A client is its certificate: its common name is the user and the client id, so none ends another's session.",
        "use_identity_as_username true",
        "use_username_as_clientid true",
        "allow_anonymous false",
        f"acl_file {_path(access)}",
        f"message_size_limit {MAX_PAYLOAD_BYTES}",
        "max_queued_messages 10000",
        "persistence false",
        "set_tcp_nodelay true",
    ]
    return "\n".join(lines) + "\n"


def mosquitto_access(fabric: Fabric, controllers: Sequence[str], operators: Sequence[str] = ()) -> str:
    """Return the access rules; controllers and operators read all. Raises InputError for a name no certificate has."""
    readers = [(Role.CONTROLLER, name) for name in controllers] + [(Role.OPERATOR, name) for name in operators]
    filters = [topic for topic, _ in subscriptions(fabric.name)]
    stanzas = [_stanza(fabric, role, name, "read", filters) for role, name in readers]
    for name, topic in _own_topics(fabric):
        topics = [topic, status_topic(fabric.name, name)]
        stanzas.append(_stanza(fabric, Role.AGENT, name, "write", topics))
    return f"# Access rules of fabric {fabric.name}, by common name.\n\n" + "\n".join(stanzas)


def _own_topics(fabric: Fabric) -> Iterator[tuple[str, str]]:
    for switch in fabric.switches:
        yield switch.id, ports_topic(fabric.name, switch.id)
    for host in dict.fromkeys(nic.host for nic in fabric.nics):
        yield host, nics_topic(fabric.name, host)


def _stanza(fabric: Fabric, role: Role, name: str, access: str, topics: Iterable[str]) -> str:
    try:
        user = Identity(fabric.name, role, name).common_name
    except ValueError as fault:
        raise InputError(f"{role} {name}: no certificate can have this name: {fault}") from None
    return "\n".join([f"user {user}", *(f"topic {access} {topic}" for topic in topics)]) + "\n"


def _path(path: Path) -> str:
    text = str(path.absolute())
    if not text.isprintable():
        raise InputError(f"{text!r}: mosquitto reads no such path")
    return text
