"""Check the options of `heddle agent`, build its sources and broker from them, and run the agent."""

import asyncio
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heddle.controller.config import load_fabric
from heddle.controller.config.port_map import by_lanes, port_numbers
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.address import ip_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.server_address import split_address
from heddle.controller.runtime.interpreter import shorten_pauses
from heddle.foundation.certificate import CertificateError
from heddle.foundation.identity import TLS_VARIABLE
from heddle.foundation.regular_file import read_regular
from heddle.foundation.tls_files import named_tls
from heddle.telemetry.agent.agent import Agent, AgentSettings
from heddle.telemetry.agent.neighbours.beside import WithNeighbours
from heddle.telemetry.agent.neighbours.lldpd import LldpdNeighbours
from heddle.telemetry.agent.reporter import QueuePairReporter
from heddle.telemetry.agent.session import Broker
from heddle.telemetry.agent.source import CounterSource
from heddle.telemetry.agent.sources.emulated import EmulatedNics, EmulatedSwitches
from heddle.telemetry.agent.sources.ethtool import HostNics
from heddle.telemetry.agent.sources.linux_switch import LinuxSwitch
from heddle.telemetry.broker_tls import BrokerTls

MIN_PERIOD_NS, MAX_PERIOD_NS = 10_000_000, 3_600_000_000_000
MAX_SECRET_BYTES = 4_096
MAX_LAB_BYTES = 1 << 20
ROUTERS = "routers.json"
"""The file of a lab of routers: by switch the process of its network namespace, and its ports by interface."""

_PERIOD = re.compile(r"(\d+(?:\.\d+)?)(ms|s)\Z", re.ASCII)
_UNIT_NS = {"ms": 1_000_000, "s": 1_000_000_000}
# A lab updates its counters every few milliseconds, SONiC once per second.
_DEFAULT_PERIOD = {"emulated": "100ms", "sonic": "1s", "linux": "1s", "ethtool": "1s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The options of the command line, unchecked."""

    fabric: str
    source: str
    broker: str
    period: str | None = None
    agent: str | None = None
    user: str | None = None
    password_file: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    lab: Path | None = None
    switches: Sequence[str] = ()
    hosts: Sequence[str] = ()
    redis: str = ""
    port_map: Path | None = None
    lanes: int = 0
    nics: Sequence[str] = ()
    lldpd: Sequence[str] = ()
    controller: str | None = None


def run_agent(options: AgentOptions) -> None:
    """Run until SIGINT or SIGTERM; raises HeddleError if the agent cannot start."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    build = _SOURCES.get(options.source)
    if build is None:
        raise InputError(f"--source {one_line(options.source)}: must be one of {', '.join(_SOURCES)}")
    name_of_fabric, fabric = _fabric(options.fabric)
    host_of = {nic.id: nic.host for nic in fabric.nics} if fabric is not None else {}
    broker = _broker(options)
    name = options.agent or _default_name(options)
    try:
        settings = AgentSettings(
            fabric=name_of_fabric, agent=name, period_ns=_period_ns(options.period or _DEFAULT_PERIOD[options.source])
        )
    except ValueError as fault:
        raise InputError(f"--fabric or --id: {fault}") from None
    reporter = _reporter(options, fabric)
    asyncio.run(_serve(settings, broker, lambda: build(options, host_of), reporter))


async def _serve(
    settings: AgentSettings,
    broker: Broker,
    build: Callable[[], Sequence[CounterSource]],
    reporter: QueuePairReporter | None,
) -> None:
    ended = asyncio.Event()
    running = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(wanted, ended.set)
    sources = build()
    agent = Agent(settings, broker, sources, reporter)
    ready = {"ready": True, "agent": settings.agent, "fabric": settings.fabric, "broker": str(broker)}
    shorten_pauses()
    print(json.dumps({**ready, "sources": [source.name for source in sources]}), flush=True)
    await agent.run(ended)
    logging.getLogger(__name__).info("ended: %s", json.dumps(agent.counts()))


def _emulated(options: AgentOptions, host_of: dict[str, str]) -> Sequence[CounterSource]:
    if options.lab is None:
        raise InputError("--source emulated needs --lab DIR: the lab's directory, with the files of its counters")
    sources: list[CounterSource] = []
    if (options.lab / ROUTERS).exists():
        sources += _routers(options.lab / ROUTERS, _lldpds(options))
    elif options.switches or not options.hosts:
        sources.append(EmulatedSwitches(options.lab / "counters", options.switches))
    if options.hosts or not options.switches:
        period_ns = _period_ns(options.period or _DEFAULT_PERIOD["emulated"])
        sources.append(EmulatedNics(options.lab / "nic", host_of, options.hosts, period_ns))
    return sources


def _routers(path: Path, lldpds: Mapping[str, Path]) -> Sequence[CounterSource]:
    """Return the routers of a lab, with what their lldpd hears; raises InputError."""
    try:
        listed = json.loads(read_regular(path, MAX_LAB_BYTES))
        return [_router(switch, each["ports"], lldpds.get(switch), int(each["pid"])) for switch, each in listed.items()]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as fault:
        raise InputError(f"--lab: {path.name} does not name the routers of a running lab: {fault!r}") from None


def _router(switch: str, number_of: Mapping[str, int], lldpd: Path | None, process: int | None = None) -> CounterSource:
    router = LinuxSwitch(switch, number_of, process)
    if lldpd is None:
        return router
    port_of = {interface: f"{switch}:{number}" for interface, number in number_of.items()}
    neighbours = LldpdNeighbours(lldpd, port_of)
    return WithNeighbours(router, neighbours, watch=neighbours.watch)


def _lldpds(options: AgentOptions) -> dict[str, Path]:
    """Return the socket of the lldpd of each device."""
    socket_of = {}
    only = [*options.switches, *options.hosts]
    for text in options.lldpd:
        node, equals, path = text.partition("=")
        if not equals and len(only) == 1:
            node, path = only[0], text
        if not node or not path or node in socket_of:
            raise InputError(
                f"--lldpd {one_line(text)}: must be lldpd's socket, or in a lab ROUTER=SOCKET, each router once"
            )
        socket_of[node] = Path(path)
    return socket_of


def _linux(options: AgentOptions, host_of: dict[str, str]) -> Sequence[CounterSource]:
    if len(options.switches) != 1 or options.port_map is None:
        raise InputError("--source linux needs one --switch NAME, and --port-map FILE with a line `swp1 1` per port")
    switch = options.switches[0]
    return [_router(switch, port_numbers(options.port_map), _lldpds(options).get(switch))]


def _sonic(options: AgentOptions, host_of: dict[str, str]) -> Sequence[CounterSource]:
    from heddle.telemetry.agent.sources.sonic import SonicSwitch  # Redis takes a seventh of an agent's start

    if len(options.switches) != 1:
        raise InputError("--source sonic needs one --switch NAME: the id of this switch in the fabric")
    if not options.redis.startswith(("redis://", "rediss://", "unix://")):
        raise InputError("--redis: must be a URL such as unix:///var/run/redis/redis.sock or redis://10.0.0.1:6379")
    number_of = port_numbers(options.port_map).get if options.port_map else by_lanes(options.lanes)
    try:
        switch = SonicSwitch(options.switches[0], options.redis, number_of)
        return [WithNeighbours(switch, switch.neighbours)]
    except ValueError as fault:
        raise InputError(f"--redis: {fault}") from None


def _ethtool(options: AgentOptions, host_of: dict[str, str]) -> Sequence[CounterSource]:
    device_of = _devices(options)
    lldpd = _lldpds(options).get(options.hosts[0])
    nics = HostNics(options.hosts[0], device_of)
    if lldpd is None:
        return [nics]
    neighbours = LldpdNeighbours(lldpd, {device: nic for nic, device in device_of.items()})
    return [WithNeighbours(nics, neighbours, watch=neighbours.watch)]


def _devices(options: AgentOptions) -> dict[str, str]:
    """Return the network device of each NIC of the host."""
    if len(options.hosts) != 1:
        raise InputError("--source ethtool needs one --host NAME: the id of this host in the fabric")
    device_of = {}
    for text in options.nics:
        nic, _, device = text.partition("=")
        if not nic or not device or nic in device_of:
            raise InputError(f"--nic {one_line(text)}: must be NIC=DEVICE such as h1-n0=eth2, each NIC once")
        device_of[nic] = device
    if not device_of:
        raise InputError("--source ethtool needs --nic NIC=DEVICE: the fabric's id of a NIC, and its network device")
    return device_of


_SOURCES = {"emulated": _emulated, "sonic": _sonic, "linux": _linux, "ethtool": _ethtool}


def _fabric(text: str) -> tuple[str, Fabric | None]:
    """Return the fabric's name and, if a fabric file is given, the fabric."""
    if "/" not in text and not text.endswith((".yaml", ".yml", ".json")):
        return text, None
    fabric = load_fabric(Path(text))
    return fabric.name, fabric


def _reporter(options: AgentOptions, fabric: Fabric | None) -> QueuePairReporter | None:
    """Return what reports queue pairs to a controller; None where that is not wanted."""
    if options.controller is None:
        return None
    if options.source != "ethtool" or fabric is None:
        raise InputError("--controller needs --source ethtool and a fabric file, which has the addresses of the NICs")
    split_address(options.controller)
    device_of = _devices(options)
    own = {nic.id: ip_text(nic.ip) for nic in fabric.nics if nic.host == options.hosts[0]}
    unknown = sorted(device_of.keys() - own.keys())
    if unknown:
        raise InputError(f"--nic {unknown[0]}: {options.hosts[0]} has no such NIC in this fabric")
    try:
        tls = named_tls(os.environ.get(TLS_VARIABLE), logging.getLogger("heddle.agent").error)
    except CertificateError as error:
        raise InputError(f"{TLS_VARIABLE}: {error}") from None
    return QueuePairReporter(
        options.controller, options.hosts[0], {device: own[nic] for nic, device in device_of.items()}, tls=tls
    )


def _default_name(options: AgentOptions) -> str:
    devices = [*options.switches, *options.hosts]
    return devices[0] if len(devices) == 1 else options.source


def _period_ns(text: str) -> int:
    read = _PERIOD.match(text) if len(text) < 20 else None
    period_ns = round(float(read[1]) * _UNIT_NS[read[2]]) if read else 0
    if not MIN_PERIOD_NS <= period_ns <= MAX_PERIOD_NS:
        raise InputError(f"--period {one_line(text)}: must be from 10ms to 3600s, such as 100ms or 1s")
    return period_ns


def _broker(options: AgentOptions) -> Broker:
    host, _, port = options.broker.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or len(port) > 5 or not 0 < int(port) < 65_536:
        raise InputError(f"--broker {one_line(options.broker)}: must be HOST:PORT such as 127.0.0.1:1883")
    if (options.user is None) != (options.password_file is None):
        raise InputError("--user and --password-file: give both or none")
    if options.tls_ca is None and (options.tls_cert or options.tls_key):
        raise InputError("--tls-cert and --tls-key need --tls-ca as well")
    password = None
    if options.password_file:
        password = _text(options.password_file, "--password-file", MAX_SECRET_BYTES).rstrip("\n")
    host, number = split_address(options.broker)
    return Broker(host=host, port=number, user=options.user, password=password, tls=_tls(options))


def _tls(options: AgentOptions) -> BrokerTls | None:
    if options.tls_ca is None:
        return None
    tls = BrokerTls(ca=options.tls_ca, certificate=options.tls_cert, key=options.tls_key)
    try:
        tls.context()
    except (OSError, ValueError) as fault:
        raise InputError(f"--tls-ca, --tls-cert or --tls-key: {getattr(fault, 'strerror', None) or fault}") from None
    return tls


def _text(path: Path, option: str, max_bytes: int) -> str:
    try:
        return read_regular(path, max_bytes).decode()
    except (OSError, UnicodeDecodeError) as fault:
        raise InputError(f"{option} {path}: {getattr(fault, 'strerror', None) or 'not UTF-8 text'}") from None
