"""Run `heddle run` as a process, with a client."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from heddle.controller.model.fabric import Fabric
from heddle.foundation.channel import channel_to
from heddle.foundation.tls_files import Tls
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.free_ports import free_ports

if TYPE_CHECKING:
    from heddle.mininet_topos.lab import Lab

PATIENCE_S = 60


class Controller:
    """A running controller: its process, addresses and services."""

    def __init__(
        self,
        fabric: Path,
        openflow: str = "127.0.0.1:0",
        more: Sequence[str] = (),
        program: str = "heddle.programs.console.main",
        limit: Sequence[str] = (),
        tls: Tls | None = None,
        *,
        without_file: bool = False,
    ) -> None:
        """Start `heddle run`, or another program with the same command line and first line of output.

        OpenFlow and gRPC get ports that stay free while a controller starts again: while it is dead, one of the
        ephemeral range could be given to any connection, also to one of its own clients that connects to itself.
        `limit` is a command that runs another, such as prlimit. `tls` are the client's files. `without_file` continues
        with the fabric in force; `fabric` then only names the log.
        """
        ports = [f"127.0.0.1:{port}" for port in free_ports(2)]
        openflow = ports[0] if openflow.endswith(":0") else openflow
        command = [*limit, sys.executable, "-m", program, "run", *([] if without_file else [str(fabric)])]
        command += ["--openflow", openflow, "--grpc", ports[1], "--http", "127.0.0.1:0", *more]
        command += [] if "--state" in more else ["--state", "none"]
        self.log = fabric.with_suffix(".log").open("a+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self.process.stdout is not None
        self._out = self.process.stdout
        line = self._out.readline()
        assert line, f"it ended with status {self.process.wait(PATIENCE_S)}: {Path(self.log.name).read_text()}"
        ready = json.loads(line)
        self.openflow, self.grpc, self.http = ready.get("openflow", ""), ready["grpc"], ready.get("http", "")
        self.channel = channel_to(self.grpc, (), tls)
        self.jobs, self.fabric = rpc.JobServiceStub(self.channel), rpc.FabricServiceStub(self.channel)
        self.telemetry = rpc.TelemetryServiceStub(self.channel)

    @property
    def openflow_port(self) -> int:
        return int(self.openflow.rsplit(":", 1)[1])

    def wait_for_rules(self, timeout_s: float = PATIENCE_S) -> pb.Topology:
        """Wait until every switch is connected and holds rules."""
        end = time.monotonic() + timeout_s
        while True:
            topology = self.fabric.GetTopology(pb.GetTopologyRequest())
            if all(switch.connected and switch.rules for switch in topology.switches):
                return topology
            assert time.monotonic() < end, topology.switches
            time.sleep(0.02)

    def wait_in_force(self, fabric: Fabric, timeout_s: float = PATIENCE_S) -> pb.Topology:
        """Wait until a life of the controller serves a fabric, and each of its switches holds rules."""
        end = time.monotonic() + timeout_s
        links = {(each.id, each.capacity_bps) for each in fabric.directed_links}
        while True:
            try:
                found = self.fabric.GetTopology(pb.GetTopologyRequest(), timeout=timeout_s)
                if {(each.id, each.capacity_bps) for each in found.links} == links and all(
                    each.connected and each.rules and each.datapath_id == fabric.switch_by_id[each.id].datapath_id
                    for each in found.switches
                ):
                    return found
            except grpc.RpcError as error:  # a life of the controller has not replied
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    raise
            assert time.monotonic() < end
            time.sleep(0.05)

    def end(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.terminate()
        status = self.process.wait(PATIENCE_S)
        self._close()
        return status

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._close()

    def _close(self) -> None:
        self.channel.close()
        self._out.close()
        self.log.close()


@contextmanager
def controlling(lab: "Lab", fabric: Path, *more: str) -> Iterator[Controller]:
    """Run a controller of a lab, all of whose switches have rules, while the context lasts."""
    running = Controller(fabric, more=more)
    try:
        lab.connect_controller(running.openflow_port)
        running.wait_for_rules()
        yield running
    finally:
        running.end()


@contextmanager
def controller(fabric: Path, openflow: str = "127.0.0.1:0") -> Iterator[Controller]:
    """Run a controller while the context lasts."""
    running = Controller(fabric, openflow)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end()
