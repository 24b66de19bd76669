"""A lab to play with: switches, hosts, NICs, broker, agent, and a controller with history, and what one does to it.

    with Playground(lab_fabric(None)) as playground:
        playground.run(TrafficRequest(workload="ring", planned=True, seconds=5), print)
        playground.cut("leaf1:1>spine1:1")

Workloads run one at a time; cables are cut and healed meanwhile, from any thread.
"""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from heddle.controller.model.error import (
    AlreadyExistsError,
    InputError,
    InUseError,
    NotFoundError,
    PrerequisiteError,
    UnavailableError,
)
from heddle.controller.model.fabric import Cable, Nic
from heddle.controller.model.suggest import did_you_mean
from heddle.mininet_topos.host.node_access import write_nodes
from heddle.mininet_topos.host.registry import entry_of
from heddle.mininet_topos.host.signals import stop_deferred
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.playground.fabric import LabFabric
from heddle.mininet_topos.playground.result import TrafficResult
from heddle.mininet_topos.playground.traffic import SCENES, TrafficRequest, run_traffic
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.services.controller_client import ControllerClient, connected
from heddle.mininet_topos.services.controller_process import running_controller
from heddle.mininet_topos.services.loopback import preferred
from heddle.mininet_topos.services.telemetry import lab_telemetry, why_no_broker
from heddle.mininet_topos.traffic.workloads import WORKLOADS

GRPC, HTTP = "127.0.0.1:50051", "127.0.0.1:8080"
"""The controller's addresses if no other program has them, so that `heddle top` finds it without --server."""
TENANT = "lab"
QUARANTINE_MS = 3_000
"""Shorter than the default, so that the next workload after a storm finds all NICs soon."""
END_TIMEOUT_S = 10.0


class Playground:
    """A running lab; `addresses` are its controller's, by name; `config` are more lines of the controller's config."""

    parts = "switches, hosts and NICs"
    scenes = frozenset(SCENES)
    """The workloads beside the plain ones that these switches carry."""

    def __init__(self, wanted: LabFabric, progress: Callable[[str], None] = lambda line: None) -> None:
        """Prepare the lab; `with` builds it. `progress` is called with a line before each step."""
        self._wanted, self._progress = wanted, progress
        settings = replace(NicSettings.for_fabric(wanted.fabric), dcqcn=True)
        self.lab: Lab = Lab(wanted.fabric, settings=settings, queues=QueueSettings())
        self.config = ""
        self.addresses: dict[str, str] = {}
        self._stack = ExitStack()
        self._client: ControllerClient | None = None
        self._is_up = False
        self._traffic, self._cables = threading.Lock(), threading.Lock()
        self._runs, self._ends_s = "", 0.0
        self._cut: set[str] = set()
        self._is_ending = False

    def __enter__(self) -> Self:
        try:
            self._start()
            self._is_up = True
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the workload and all processes, and remove the lab; may be called again."""
        with stop_deferred():
            if self._is_up and not self._traffic.acquire(blocking=False):
                self._is_ending = True
                self.lab.end_flows()
                self._traffic.acquire(timeout=END_TIMEOUT_S)
            self._client, self._is_up = None, False
            self._stack.close()

    @property
    def directory(self) -> Path:
        """Return the directory of the lab's files, sockets and logs."""
        return entry_of(self.lab.id).directory

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the lab's processes, which end with it."""
        return entry_of(self.lab.id).environment

    @property
    def client(self) -> ControllerClient:
        """Return the controller's client."""
        if self._client is None:
            raise PrerequisiteError("the lab is not running")
        return self._client

    def run(self, request: TrafficRequest, on_progress: Callable[[float, float], None]) -> TrafficResult:
        """Run a workload; raises InUseError while another one runs, UnavailableError if the lab ends before.

        Raises InputError for one that needs other switches.
        """
        if request.workload in SCENES and request.workload not in self.scenes:
            text = f"{request.workload} needs switches that mark and pause; routers run {', '.join(WORKLOADS)}"
            raise InputError(text)
        if request.workload in SCENES and any(nic.of for nic in self.lab.fabric.nics):
            raise InputError(f"{request.workload} needs NICs of one port; over planes run {', '.join(WORKLOADS)}")
        if not self._traffic.acquire(blocking=False):
            left_s = max(0.0, self._ends_s - time.monotonic())
            raise InUseError(f"{self._runs}, is running, for another {left_s:.0f} s; end it by Ctrl-C in its terminal")
        try:
            self._runs, self._ends_s = request.text, time.monotonic() + request.seconds
            found = run_traffic(self.lab, self.client, request, on_progress)
            if self._is_ending:
                raise UnavailableError(f"lab {self.lab.id} has ended")
            return found
        finally:
            self._traffic.release()

    def end_run(self) -> None:
        """End the workload that runs."""
        self.lab.end_flows()

    def cut(self, link: str) -> tuple[Cable | Nic, float]:
        """Cut a cable, or that of a port of a NIC; return it, and after how many seconds the controller knew."""
        cable = self._cable(link)
        with self._cables:
            if cable.id in self._cut:
                raise AlreadyExistsError(f"{cable.id} is cut already; repair it with `heddle lab heal {cable.id!r}`")
            self._cut.add(cable.id)
            return cable, self._timed(cable, up=False)

    def heal(self, link: str) -> tuple[Cable | Nic, float]:
        """Repair a cable that is cut; return it, and after how many seconds the controller knew."""
        cable = self._cable(link)
        with self._cables:
            if cable.id not in self._cut:
                raise NotFoundError(f"{cable.id} is not cut; cut are: {', '.join(sorted(self._cut)) or 'none'}")
            self._cut.discard(cable.id)
            return cable, self._timed(cable, up=True)

    def facts(self) -> dict[str, Any]:
        """Return what --json prints."""
        found = {"lab": self.lab.id, "url": f"http://{self.addresses['http']}/", "directory": str(self.directory)}
        return found | {key: self.addresses[key] for key in ("grpc", "openflow") if key in self.addresses}

    def hints(self) -> list[tuple[str, str]]:
        """Return what one may do next, each with its command."""
        cable = self.lab.fabric.cables[0].id
        server = "" if self.addresses["grpc"] == GRPC else f" --server {self.addresses['grpc']}"
        port = next((nic.id for nic in self.lab.fabric.nics if nic.of), None)
        of_port = [("a port fails, and returns", f"heddle lab cut {port}; heddle lab heal {port}")] if port else []
        return [
            ("a workload on planned paths", "heddle lab traffic permutation"),
            ("the same on hashed ports", "heddle lab traffic permutation --hashed"),
            ("a cable fails, and returns", f"heddle lab cut '{cable}'; heddle lab heal '{cable}'"),
            *of_port,
            ("live rates of all ports", f"heddle top{server}"),
            ("a shell in a host", f"heddle lab exec {self.lab.fabric.nics[0].host} bash"),
        ]

    def _timed(self, cable: Cable | Nic, *, up: bool) -> float:
        began = time.monotonic()
        self._set(cable, up=up)
        return time.monotonic() - began

    def _set(self, cable: Cable | Nic, *, up: bool) -> None:
        self.lab.net.set_cable(cable.id, up=up)
        self.client.await_link(cable.up_link, up=up)

    def _cable(self, link: str) -> Cable | Nic:
        fabric = self.lab.fabric
        cables = fabric.cable_by_link
        of_nic = {end: nic for nic in fabric.nics for end in (nic.id, nic.up_link, nic.down_link)}.get(link)
        if of_nic is not None and of_nic.of:
            return of_nic
        if of_nic is not None:
            raise NotFoundError(
                f"{of_nic.id} is a NIC; a lab cuts cables between switches, such as {next(iter(cables))}"
            )
        if link in fabric.ports_of:
            ports = " or ".join(nic.id for nic in fabric.ports_of[link])
            raise NotFoundError(f"{link} is a NIC with several ports: name one of them, {ports}")
        if link not in cables:
            near = did_you_mean(link, cables)
            raise NotFoundError(f"no link {link!r} in this lab{near or '; `heddle topology` lists them'}")
        return cables[link]

    def _start(self) -> None:
        why = why_no_broker()
        if why is not None:
            raise PrerequisiteError(why)
        self._progress(self.parts)
        self._stack.enter_context(self.lab)
        self._describe()
        self._progress("the broker and the telemetry agent")
        telemetry = self._stack.enter_context(lab_telemetry(self.lab))
        self._progress("the controller")
        config = f"{telemetry}history: {self.directory / 'history.db'}\nquarantine_ms: {QUARANTINE_MS}\n{self.config}"
        grpc, http = (self._stack.enter_context(preferred(address)) for address in (GRPC, HTTP))
        self.addresses = self._stack.enter_context(
            running_controller(self._wanted.text, self.directory, self.environment, config, grpc=grpc, http=http)
        )
        self._client = self._stack.enter_context(connected(self.addresses["grpc"], TENANT))
        self._attach()

    def _describe(self) -> None:
        """Write the files by which other programs find the parts of the lab."""
        write_nodes(entry_of(self.lab.id), {host.name: host.pid for host in self.lab.net.mininet.hosts})

    def _attach(self) -> None:
        """Bring the fabric under the controller's control."""
        self._progress("the rules of the switches")
        self.lab.connect_controller(int(self.addresses["openflow"].rpartition(":")[2]))
        self.client.await_switches(len(self.lab.fabric.switches))
