"""The composition root: creates and connects every server, queue and task of the controller.

southbound ──events──►                      ┌─► planner (one to three processes), compiler of rules (a process)
                      inbox ──► Loop(brain) ─┼─► southbound.install (barriers)
gRPC ──────events──►                        └─► replies, watchers
HTTP ◄─────state────
MQTT ──samples──► collector (one worker thread) ──scans──► telemetry's readers, history (a thread)
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Network
from typing import NoReturn

from heddle.controller import parts
from heddle.controller.access.audit import Audit
from heddle.controller.access.audit_file import AuditFile
from heddle.controller.access.guard import Access
from heddle.controller.access.policy import Policy
from heddle.controller.api.leading import Leading
from heddle.controller.api.server import ApiServer, ApiSettings, Served
from heddle.controller.brain.begin import begin, started_at
from heddle.controller.brain.state import State
from heddle.controller.config.policy_file import fabric_under, load_policy
from heddle.controller.config.service import ServiceConfig
from heddle.controller.config.telemetry import why_alarms_only
from heddle.controller.config.tls import opened
from heddle.controller.dashboard.leader_metrics import Cluster
from heddle.controller.dashboard.server import Dashboard
from heddle.controller.dashboard.sources import Sources
from heddle.controller.model.error import HeddleError, PrerequisiteError, SteppedDownError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.server_address import address_text, split_address
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.probe_sessions.sessions import ProbeAgents
from heddle.controller.recording.recorder import Recorder
from heddle.controller.runtime.attached import Attached
from heddle.controller.runtime.clock import SystemClock
from heddle.controller.runtime.fabric_apply import FabricApply, use_that_in_force
from heddle.controller.runtime.feeds import Feeds
from heddle.controller.runtime.heard import HeardPeers
from heddle.controller.runtime.interpreter import shorten_pauses
from heddle.controller.runtime.isolation.checks import IsolationChecks
from heddle.controller.runtime.journal.fitting import UnfitFabricError
from heddle.controller.runtime.journal.gate import Gate
from heddle.controller.runtime.journal.restart import continued, numbered, remember_fabric
from heddle.controller.runtime.judged_cables import JudgedBy
from heddle.controller.runtime.leadership import ClusterCounts, Leadership
from heddle.controller.runtime.limits.descriptors import Places, places_of_process, report_shortage
from heddle.controller.runtime.limits.exposure import warned
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.limits.shares import MAX_PREVIEWS, Shares
from heddle.controller.runtime.link_history import LinkHistory
from heddle.controller.runtime.loop import Loop, Performers
from heddle.controller.runtime.meshing import Meshing
from heddle.controller.runtime.port_search import PortSearch
from heddle.controller.runtime.ports import Compiler, Planner, PortFinder, StateStore, StoreError
from heddle.controller.southbound.posting import Inbound
from heddle.controller.southbound.server import OpenFlowServer
from heddle.controller.southbound.settings import SouthboundSettings
from heddle.controller.store.etcd.identity.memory import Memory
from heddle.controller.store.etcd.member import ClusterMember
from heddle.controller.store.history import SqliteHistory
from heddle.controller.store.state_directory import StateDirectory
from heddle.controller.views.port_room import room_line
from heddle.foundation.tls_files import Tls
from heddle.telemetry.warm import warm as warm_telemetry

_LOG = logging.getLogger("heddle.controller")


class Application:
    """One controller for one fabric."""

    def __init__(
        self, fabric: Fabric, config: ServiceConfig, planner: Planner | None = None, compiler: Compiler | None = None,
        counts: ClusterCounts | None = None, finder: PortFinder | None = None, memory: Memory | None = None,
        initial: State | None = None,
    ) -> None:  # fmt: skip
        """Create the parts; `planner` and `compiler` are processes of their own by default, which tests may replace.

        `counts` and `memory` (of its etcd) continue over the lives of one of several controllers. `finder` finds source
        ports on a fabric that hashes, by default with the probe agents. `initial` is the first state of a life whose
        former life still replies to calls.
        """
        self._config, self._counts, self._memory = config, counts or ClusterCounts(), memory or Memory()
        self._policy = load_policy(config.policy, fabric) if config.policy else Policy()
        clock = SystemClock()
        if planner is None or compiler is None:
            pool, compiling = parts.processes(fabric)
            planner, compiler = planner or pool, compiler or compiling
        self._planner, self._compiler, self._follows = planner, compiler, initial is not None
        self._initial = initial or begin(fabric, config.of_brain())
        self.feeds, self.gate, self.port_search = Feeds(clock=clock), Gate(), PortSearch(clock)
        self.attached = Attached(probe_agents=ProbeAgents(self.feeds.note))
        self.limited: Counter[Limit] = Counter()
        """What each limit has refused, on every port."""
        self.previews = Shares("previews", MAX_PREVIEWS)
        self.suppressed_lines: Callable[[], int] = int
        """Returns how many log lines of the process were not written."""
        self.loop = Loop(
            started_at(self._initial, clock.steady_unix_ms()),
            Performers(
                planner=self._planner, compiler=self._compiler, port_search=self.port_search, feeds=self.feeds,
                gateways=self.attached.gateways, gate=self.gate,
            ),
            clock=clock, limited=self.limited,
        )  # fmt: skip
        self.port_search.finder = finder
        if traits_of(fabric).is_probed and finder is None:
            self.port_search.use(parts.probing(self.loop, self.attached.probe_agents, self.feeds.note, config))
        self.peers = HeardPeers(self.loop.post, self.limited)
        self.discovery = parts.discovery(fabric, self.peers)
        self.meshing = Meshing(self.loop, self.attached.probe_agents, self.peers, nic_pps=config.mesh_probes_pps)
        self.attached.flows.judge = partial(self.meshing.judged.report, JudgedBy.HOSTS)
        self.collecting = parts.collecting(
            fabric, config, self.feeds.telemetry, self.loop, self.peers, self.meshing.judged
        )
        self.isolation = IsolationChecks(self.loop, self.attached.gateways)
        self._links = LinkHistory(self.loop, self.feeds)
        self._known = {switch.datapath_id: switch.id for switch in fabric.switches}
        self._running: asyncio.Task[None] | None = None
        self._looping: asyncio.Task[None] | None = None
        self._history: SqliteHistory | None = None
        self._recorder: Recorder | None = None
        self._access: Access | None = None
        self._applying: FabricApply | None = None
        self._api: ApiServer | None = None
        self._hands_over = False
        self._lines: AuditFile | None = None

    def _kept(self, opened: Callable[[], StateStore]) -> tuple[StateStore, int]:
        """Continue with what the journal holds; return its store and this start's generation.

        Raises HeddleError, and StoreError.
        """
        store = opened()
        try:
            loop, now = self.loop, self.loop.now_unix_ms()
            if self._config.cluster.name is not None:
                use_that_in_force(loop.state.fabric, store)
            state = continued(started_at(self._initial, now), store, now)  # may refuse, before anything is written
            generation = store.next_generation()
            loop.state = numbered(state, generation)
            remember_fabric(loop.state, store)
        except BaseException:
            store.close()
            raise
        return store, generation

    @asynccontextmanager
    async def started(self, *, hands_over: bool = False) -> AsyncIterator[dict[str, str]]:
        """Run while the context lasts; yields the addresses that clients and switches connect to.

        With `hands_over` calls are replied to from the last state until `end_calls`, where another life follows.
        """
        leadership = Leadership()
        with parts.state_directory(self._config) as directory:
            member = parts.member(self._config, self.loop.state.fabric, leadership, self._counts, self._memory)
            try:
                async with self._started(directory, leadership, member) as addresses:
                    self._hands_over = hands_over and member is None
                    yield addresses
            finally:
                if self.gate.journal is not None:
                    await asyncio.to_thread(self.gate.journal.close)
                if member is not None:
                    await member.close()

    @asynccontextmanager
    async def _started(
        self, directory: StateDirectory | None, leadership: Leadership, member: ClusterMember | None
    ) -> AsyncIterator[dict[str, str]]:
        config, loop = self._config, self.loop
        asyncio.get_running_loop().set_exception_handler(report_shortage)
        tls = opened(config.tls, _LOG.error)
        room = places_of_process(len(self._known), config.limits.grpc_connections)
        server = self._openflow(room, leadership, tls)
        vteps = tuple(IPv4Network(text) for text in config.vteps)
        lines = self._lines = await asyncio.to_thread(parts.audit_file, config)
        audit = Audit(self.feeds.telemetry, time.time_ns, lines)
        read, first = partial(fabric_under, config.policy), partial(begin, settings=config.of_brain())
        applying = self._applying = FabricApply(loop, self.gate, read, parts.processes, first)
        access = self._access = Access(loop, self.feeds.owners, audit, self._policy)
        api = self._api = ApiServer(
            loop,
            Served(
                feeds=self.feeds, attached=self.attached, previews=self.previews, limited=self.limited,
                applying=applying, setup=parts.setup_of(config),
            ),
            access,
            ApiSettings(
                vteps=vteps, keepalive_ms=config.keepalive_ms, tls=tls, limits=config.limits.of_calls(),
                connections=room.grpc, follows=self._follows,
            ),
            Leading(leadership, self.gate) if member else None,
        )  # fmt: skip
        http = Dashboard(
            self._sources(), parts.jobs_in, parts.access_rules(config, access), parts.page_tls(config, tls), audit,
            Cluster(leadership, self._counts) if member else None,
        )  # fmt: skip
        loop.connect(server)
        self._compiler.start()
        self._planner.start()
        if self.collecting is not None:
            await asyncio.to_thread(warm_telemetry)
        if not self._follows:  # else what is there is excluded already
            shorten_pauses()
        try:
            with warned(config.exposed):
                if member is None:
                    try:
                        await self._begin(directory.open if directory is not None else None, leadership)
                    except StoreError as error:
                        text = f"{error}; make room, or name another directory by --state"
                        raise PrerequisiteError(text) from None
                    self._running = self._looping
                    addresses = await self._listen(server, api)
                    addresses |= await self._start_http(http)
                    await self._serve(api, http)
                    yield addresses
                else:
                    addresses = await self._listen(server, api) | await self._start_http(http)
                    self._running = asyncio.create_task(self._take_part(member, leadership, api, http))
                    yield addresses
        finally:
            await self._close(http, server)

    @property
    def left_open(self) -> bool:
        """Return whether calls are replied to after the end, because another life follows."""
        return self._hands_over and self._applying is not None and self._applying.next.done()

    async def end_calls(self) -> None:
        """Let the callers go, and close what is open for them."""
        if self._api is not None and self._applying is not None:
            await self._api.close(self._applying.served.set)
        if self._lines is not None:
            await asyncio.to_thread(self._lines.close)

    async def _close(self, http: Dashboard, server: OpenFlowServer) -> None:
        """End what listens, then the loop, then what it writes to."""
        if self.collecting is not None:
            await self.collecting.close()
        await self.meshing.close()
        await self.isolation.close()
        await self._links.close()
        await http.close()
        if not self.left_open:
            await self.end_calls()
        await server.close()
        if self._history is not None:
            await asyncio.to_thread(self._history.close)
        for task in (self._running, self._looping):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup, HeddleError):
                    await task
        self.loop.close()
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)

    async def _begin(self, opened: Callable[[], StateStore] | None, leadership: Leadership) -> None:
        """Continue with the journal, if there is one, and run the loop; raises HeddleError and StoreError."""
        generation = SystemClock().unix_ms()  # without a journal: grows over restarts while the clock does (ADR 0012)
        if opened is not None:
            before = self.loop.state.fabric
            store, generation = await asyncio.to_thread(self._kept, opened)
            if (fabric := self.loop.state.fabric) is not before:  # its ports mean what they meant for jobs that run
                _LOG.info("running jobs keep the port layout of the journal: %s", room_line(fabric))
                self._planner.use(fabric)
                self._compiler.use(fabric)
            self.gate.keep_in(store, topology_of(self.loop.state.fabric))
        self._history = self.feeds.telemetry.history = await asyncio.to_thread(parts.history, self._config)
        self._recorder = await asyncio.to_thread(parts.recorder, self._config)
        self.loop.record_to(self._recorder)
        self._looping = asyncio.create_task(self.loop.run())
        leadership.begin(generation)

    async def _listen(self, server: OpenFlowServer, api: ApiServer) -> dict[str, str]:
        """Listen for switches and callers; raises PrerequisiteError where an address is in use.

        On a fabric that is steered without sessions no switch is to connect.
        """
        if not traits_of(self.loop.state.fabric).has_sessions:
            return {"grpc": await api.start(self._config.grpc)}
        try:
            bound = await server.start()
        except OSError as error:
            where = self._config.openflow
            raise PrerequisiteError(
                f"OpenFlow cannot listen on {where} ({error.strerror}); choose another by --openflow"
            ) from None
        return {"openflow": address_text(*bound[:2]), "grpc": await api.start(self._config.grpc)}

    async def _serve(self, api: ApiServer, http: Dashboard) -> None:
        """Serve as the controller that leads."""
        await api.serve()
        self.meshing.start()
        if self.collecting is not None:
            self.collecting.start()
            if line := why_alarms_only(self._config.telemetry, self._config.tls):
                _LOG.warning("%s", line)
        self.isolation.start()
        self._links.start()
        http.begin()

    async def _take_part(
        self, member: ClusterMember, leadership: Leadership, api: ApiServer, http: Dashboard
    ) -> NoReturn:
        """Wait until this controller leads, and lead; raises SteppedDownError, and any exception of the loop."""
        store = await member.won()
        try:
            await self._begin(lambda: store, leadership)
        except (StoreError, UnfitFabricError) as error:
            raise SteppedDownError(str(error)) from None
        await self._serve(api, http)
        over = asyncio.create_task(leadership.over())
        try:
            await asyncio.wait({over, *filter(None, [self._looping])}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
        if self._looping is not None and self._looping.done():
            self._looping.result()
        raise SteppedDownError(leadership.why_over)

    def _sources(self) -> Sources:
        """Return what the HTTP interface reads."""
        return Sources(
            loop=self.loop, feeds=self.feeds, attached=self.attached, previews=self.previews, gate=self.gate,
            limited=self.limited, probing=self.port_search.probing, mesh=self.meshing.mesh,
            frames=self.discovery.counts,
            unrecorded=lambda: self._recorder.lost if self._recorder is not None else 0,
            suppressed_lines=lambda: self.suppressed_lines(),
        )  # fmt: skip

    def _openflow(self, room: Places, leadership: Leadership, tls: Tls | None) -> OpenFlowServer:
        """Return the southbound for so many connections."""
        settings = SouthboundSettings(
            max_connections=room.openflow, max_strangers=room.strangers,
            max_strangers_of_a_peer=max(1, room.strangers // 2),
        )  # fmt: skip
        return OpenFlowServer(
            *split_address(self._config.openflow), known=self._known.get, events=Inbound(self.loop), settings=settings,
            leadership=leadership, limited=self.limited, tls=tls, discovery=self.discovery,
        )  # fmt: skip

    async def _start_http(self, http: Dashboard) -> dict[str, str]:
        """Listen for HTTP and return its address. Return none, after a warning, if the default address is in use."""
        host, port = split_address(self._config.http)
        try:
            return {"http": address_text(host, await http.listen(host, port))}
        except OSError as error:
            text = f"HTTP cannot listen on {self._config.http} ({error.strerror}); choose another by --http"
            if "http" in self._config.model_fields_set:
                raise PrerequisiteError(text) from None
            _LOG.warning("%s", text)
            return {}

    async def reload_policy(self) -> None:
        """Read the policy file again; one that cannot be used is logged, and the former policy stays in use."""
        path = self._config.policy
        if path is None or self._access is None:
            return
        try:
            policy = await asyncio.to_thread(load_policy, path, self.loop.state.fabric)
        except HeddleError as error:
            _LOG.error("policy: the former one stays in use; correct the file and send SIGHUP again: %s", error)
            return
        self._access.use(policy)
        _LOG.info("policy: %s is in use: %d tenants, %d users", path, len(policy.tenants), len(policy.users))

    async def failed(self) -> None:
        """Wait for the end of the control loop, and raise its exception, or FabricChangedError."""
        if self._running is not None and self._applying is not None:
            await self._applying.wait(self._running)
