"""The composition root: creates and connects every server, queue and task of the controller.

southbound ──events──►                      ┌─► planner (two processes), compiler of rules (a process)
                      inbox ──► Loop(brain) ─┼─► southbound.install (barriers)
gRPC ──────events──►                        └─► replies, watchers
HTTP ◄─────state────
MQTT ──samples──► collector (one worker thread) ──scans──► telemetry's readers, history (a thread)
"""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from ipaddress import IPv4Network, ip_network
from pathlib import Path

from controller.access.audit import Audit
from controller.access.audit_file import AuditFile
from controller.access.guard import Access
from controller.access.policy import Policy
from controller.api.server import ApiServer
from controller.brain.state import Settings, begin
from controller.config.access import HttpAccessConfig
from controller.config.load import parse_jobs
from controller.config.policy_file import load_policy
from controller.config.service import ServiceConfig
from controller.config.telemetry import acts_on, broker_of, detector_settings, ports_of
from controller.config.tls import opened
from controller.dashboard.access.login import AccessRules
from controller.dashboard.server import Dashboard
from controller.model.error import PrerequisiteError
from controller.model.event import PortStatus, SwitchDown, SwitchUp
from controller.model.fabric import Fabric
from controller.model.job import JobRequest
from controller.model.rule import Step, SwitchRules
from controller.model.server_address import joined, split_address
from controller.runtime.collecting import Collecting
from controller.runtime.compiling.compiler import ProcessCompiler
from controller.runtime.interpreter import shorten_pauses
from controller.runtime.journal.restart import continued, remember_fabric
from controller.runtime.loop import Loop
from controller.runtime.planning.pool import PlannerPool
from controller.runtime.ports import Compiler, Planner, StateStore, StoreError
from controller.runtime.recording.recorder import Recorder
from controller.runtime.rules import with_pins
from controller.southbound.server import OpenFlowServer
from controller.southbound.settings import SouthboundSettings
from controller.store.database import Retention
from controller.store.history import SqliteHistory
from controller.store.state_directory import NONE, StateDirectory
from foundation.identity import Role
from foundation.regular_file import read_regular
from telemetry.collector.bus import MqttBus
from telemetry.observer import Observer
from telemetry.warm import warm as warm_telemetry

_LOG = logging.getLogger("heddle.controller")
MAX_PEM_BYTES = 1 << 20


class SystemClock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        self._start_ns = time.time_ns() - time.monotonic_ns()

    def unix_ms(self) -> int:
        """Return Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def steady_unix_ms(self) -> int:
        """Return Unix time in milliseconds at the start plus the time since: setting the clock does not change it."""
        return (self._start_ns + time.monotonic_ns()) // 1_000_000

    def monotonic_ns(self) -> int:
        """Return a time that only grows, in nanoseconds."""
        return time.monotonic_ns()


class Inbound:
    """Posts events of the southbound to the control loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def switch_up(self, switch_id: str, ports: Mapping[int, bool], installed: SwitchRules) -> None:
        """Post that a switch is connected and ready for rules."""
        self._loop.post(SwitchUp(switch=switch_id, ports=ports, installed=installed))

    def switch_suspect(self, switch_id: str) -> None:
        """Log that a switch has not replied to echo requests for a while; its session continues."""
        _LOG.warning("%s: no echo reply", switch_id)

    def switch_recovered(self, switch_id: str) -> None:
        """Log that a suspect switch replies again."""
        _LOG.info("%s: echo replies again", switch_id)

    def switch_down(self, switch_id: str, reason: str) -> None:
        """Post that the session of a switch ended."""
        self._loop.post(SwitchDown(switch=switch_id, reason=reason))

    def port_status(self, switch_id: str, port_no: int, up: bool) -> None:
        """Post that a port went up or down."""
        self._loop.post(PortStatus(switch=switch_id, port=port_no, up=up))

    def rule_error(self, switch_id: str, text: str) -> None:
        """Log an error that a switch sent outside of any installation."""
        _LOG.warning("%s: %s", switch_id, text)

    def flow_removed(self, switch_id: str) -> None:
        """Log that a switch removed a rule. Ours have no timeout, so another program did it."""
        _LOG.warning("%s: a rule was removed on the switch", switch_id)


class Outbound:
    """The southbound interface that the control loop installs rules through."""

    def __init__(self, server: OpenFlowServer) -> None:
        self._server = server

    async def install(self, steps: Sequence[Step]) -> None:
        """Send the steps, each behind barriers; raises InstallError."""
        await self._server.install(steps)

    async def read_rules(self, switch_id: str) -> SwitchRules:
        """Return the rules of a switch; raises InstallError."""
        return await self._server.read_rules(switch_id)


def _history(config: ServiceConfig) -> SqliteHistory | None:
    """Open the history file, if one is configured; raises PrerequisiteError."""
    retention = Retention(max_bytes=config.history_megabytes << 20)
    return SqliteHistory(Path(config.history), retention) if config.history else None


def _recorder(config: ServiceConfig) -> Recorder | None:
    """Begin a recording, if one is configured; raises PrerequisiteError."""
    return Recorder(Path(config.record), config.record_megabytes << 20) if config.record else None


def _audit_file(config: ServiceConfig) -> AuditFile | None:
    """Open the audit file, if there is to be one; raises HeddleError."""
    path = config.audit
    if path is None and config.state not in (None, NONE):
        path = str(Path(config.state or "") / "audit.jsonl")
    return AuditFile(Path(path), config.audit_megabytes << 20) if path not in (None, NONE) else None


def _access_rules(http: str, access: HttpAccessConfig, policy: Policy) -> AccessRules:
    """Return what a caller of the page has to show."""
    return AccessRules(
        hosts=frozenset({split_address(http)[0], *access.hosts}),
        has_tls=access.certificate is not None,
        user=access.user,
        password_hash=access.password_hash,
        proxy_header=access.proxy_header,
        may_act=lambda user: policy.role_of_user(user) is Role.OPERATOR,
        proxies=tuple(map(ip_network, access.proxies)),
    )


def _tls(access: HttpAccessConfig) -> ssl.SSLContext | None:
    """Return the TLS of the page, if a certificate is configured; raises PrerequisiteError."""
    if access.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        for path in filter(None, (access.certificate, access.key)):
            read_regular(path, MAX_PEM_BYTES)  # OpenSSL would wait for a FIFO's other end
        context.load_cert_chain(access.certificate, access.key)
    except (OSError, ssl.SSLError) as error:
        raise PrerequisiteError(f"http_access: certificate or key cannot be used: {error}") from None
    return context


def _jobs_in(text: str, fabric: Fabric) -> tuple[JobRequest, ...]:
    """Return the jobs in the text of a jobs file; raises InputError."""
    return parse_jobs(text, "jobs", fabric)


class Application:
    """One controller for one fabric."""

    def __init__(
        self, fabric: Fabric, config: ServiceConfig, planner: Planner | None = None, compiler: Compiler | None = None
    ) -> None:
        """Create the parts; `planner` and `compiler` are processes of their own by default, which tests may replace."""
        settings = Settings(
            default_lease_ms=config.default_lease_ms,
            max_lease_ms=config.max_lease_ms,
            max_waiting=config.max_waiting,
            max_jobs=config.max_jobs,
            gateway_timeout_ms=config.gateway_timeout_ms,
            moves=config.moves.limits(),
            hold_ms=config.port_hold_ms,
            pin_grace_ms=config.pin_grace_ms,
            follow_ms=config.follow_ms,
            audit_ms=config.audit_ms,
            acts_on_telemetry=acts_on(config.telemetry),
            period_ms=detector_settings(config.telemetry).period_ms,
            quarantine_ms=config.quarantine_ms,
            congestion_pause_ms=config.congestion_pause_ms,
        )
        self._config = config
        self._policy = load_policy(config.policy, fabric) if config.policy else Policy()
        clock = SystemClock()
        self._planner = planner or PlannerPool(fabric, partial(with_pins, fabric))
        self._compiler = compiler or ProcessCompiler(fabric)
        self.loop = Loop(
            begin(fabric, settings, clock.steady_unix_ms()),
            planner=self._planner,
            compiler=self._compiler,
            clock=clock,
        )
        self.collecting = self._collecting(fabric)
        self._known = {switch.datapath_id: switch.id for switch in fabric.switches}
        self._running: asyncio.Task[None] | None = None

    def _kept(self, directory: StateDirectory) -> tuple[StateStore, int]:
        """Continue with what the journal holds; return its store and this start's generation; raises HeddleError."""
        store = directory.open()
        try:
            generation = store.next_generation()
            loop = self.loop
            loop.state = continued(loop.state, store, generation, loop.now_unix_ms())
            remember_fabric(loop.state, store)
        except StoreError as error:
            store.close()
            raise PrerequisiteError(f"{error}; make room, or name another directory by --state") from None
        except BaseException:
            store.close()
            raise
        return store, generation

    @contextmanager
    def _state_directory(self) -> Iterator[StateDirectory | None]:
        """Hold the state directory, if one is configured; raises HeddleError."""
        wanted = self._config.state
        directory = StateDirectory(Path(wanted)) if wanted not in (None, NONE) else None
        try:
            yield directory
        finally:
            if directory is not None:
                directory.close()

    @asynccontextmanager
    async def started(self) -> AsyncIterator[dict[str, str]]:
        """Run while the context lasts; yields the addresses that clients and switches connect to."""
        with self._state_directory() as directory:
            try:
                async with self._started(directory) as addresses:
                    yield addresses
            finally:
                if self.loop.journal is not None:
                    await asyncio.to_thread(self.loop.journal.close)

    @asynccontextmanager
    async def _started(self, directory: StateDirectory | None) -> AsyncIterator[dict[str, str]]:
        of_host, of_port = split_address(self._config.openflow)
        generation = SystemClock().unix_ms()  # without a journal: grows over restarts while the clock does (ADR 0012)
        if directory is not None:
            store, generation = await asyncio.to_thread(self._kept, directory)
            self.loop.keep_in(store)
        settings = SouthboundSettings(generation_id=generation)
        server = OpenFlowServer(of_host, of_port, known=self._known.get, events=Inbound(self.loop), settings=settings)
        vteps = tuple(IPv4Network(text) for text in self._config.vteps)
        lines = await asyncio.to_thread(_audit_file, self._config)
        audit = Audit(self.loop.telemetry, time.time_ns, lines)
        tls, access = opened(self._config.tls, _LOG.error), Access(self.loop, audit, self._policy)
        api = ApiServer(self.loop, vteps, access=access, keepalive_ms=self._config.keepalive_ms, tls=tls)
        rules = _access_rules(self._config.http, self._config.http_access, self._policy)
        http = Dashboard(self.loop, _jobs_in, rules, _tls(self._config.http_access), audit)
        history = self.loop.telemetry.history = await asyncio.to_thread(_history, self._config)
        recorder = self.loop.recorder = await asyncio.to_thread(_recorder, self._config)
        self.loop.connect(Outbound(server))
        self._compiler.start()
        self._planner.start()
        if self.collecting is not None:
            await asyncio.to_thread(warm_telemetry)
        shorten_pauses()
        self._running = asyncio.create_task(self.loop.run())
        try:
            try:
                bound = await server.start()
            except OSError as error:
                where = self._config.openflow
                raise PrerequisiteError(
                    f"OpenFlow cannot listen on {where} ({error.strerror}); choose another by --openflow"
                ) from None
            grpc = await api.start(self._config.grpc)
            if self.collecting is not None:
                self.collecting.start()
            addresses = {"openflow": joined(*bound[:2]), "grpc": grpc}
            yield addresses | await self._start_http(http)
        finally:
            if self.collecting is not None:
                await self.collecting.close()
            await http.close()
            await api.close()
            await server.close()
            if history is not None:
                await asyncio.to_thread(history.close)
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
                await self._running
            self.loop.close()
            if recorder is not None:
                await asyncio.to_thread(recorder.close)
            if lines is not None:
                await asyncio.to_thread(lines.close)

    def _collecting(self, fabric: Fabric) -> Collecting | None:
        """Return the telemetry collector, None if no broker is configured; raises InputError."""
        config, telemetry = self._config.telemetry, self.loop.telemetry
        broker = broker_of(config)
        if broker is None:
            return None
        telemetry.configured = True
        return Collecting(
            Observer(fabric.name, ports_of(fabric), detector_settings(config)), MqttBus(broker), telemetry, self.loop
        )

    async def _start_http(self, http: Dashboard) -> dict[str, str]:
        """Start HTTP and return its address. Return none, after a warning, if the default address is in use."""
        host, port = split_address(self._config.http)
        try:
            return {"http": joined(host, await http.start(host, port))}
        except OSError as error:
            text = f"HTTP cannot listen on {self._config.http} ({error.strerror}); choose another by --http"
            if "http" in self._config.model_fields_set:
                raise PrerequisiteError(text) from None
            _LOG.warning("%s", text)
            return {}

    async def failed(self) -> None:
        """Wait until the control loop fails, and raise its exception."""
        if self._running is not None:
            await asyncio.shield(self._running)
