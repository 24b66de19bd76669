"""The controller is killed (SIGKILL) at random moments under load, and starts again on the same state directory."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heddle.controller.config import load_fabric
from heddle.controller.model.fabric import Fabric
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.controllers.controller_process import Controller
from tests.support.processes.running_switches import Switches, switches
from tests.unit.journal.clients import Client, Known

CLIENTS = 8
LEASE_MS = 3_600_000
PATIENCE_S = 60.0
KILLS = [2, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.slow])]


class Site:
    """A controller on a state directory, which keeps its ports when it starts again, and its switches."""

    def __init__(self, folder: Path) -> None:
        self._fabric_file = folder / "fabric.yaml"
        self._fabric_file.write_text(
            "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 4, hosts_per_leaf: 4, gbps: 100}\n"
        )
        self.state = folder / "state"
        self.fabric: Fabric = load_fabric(self._fabric_file)
        self.controller = self._started("127.0.0.1:0")

    def _started(self, openflow: str, *more: str) -> Controller:
        return Controller(self._fabric_file, openflow, ("--state", str(self.state), *more))

    def restart(self) -> None:
        """Kill the controller and start another on its ports; returns when all switches are connected to it."""
        before = self.controller
        before.kill()
        self.controller = self._started(before.openflow, "--grpc", before.grpc)
        self.controller.wait_for_rules()


@contextmanager
def site(folder: Path) -> Iterator[tuple[Site, Switches]]:
    running = Site(folder)
    try:
        with switches(running.fabric, running.controller.openflow) as fakes:
            running.controller.wait_for_rules()
            yield running, fakes
    finally:
        if running.controller.process.poll() is None:
            running.controller.end()


def check(running: Site, clients: list[Client], started_unix_ms: int) -> None:
    """Compare what the controller has with what was acknowledged; settle what clients do not know."""
    vpcs = rpc.VpcServiceStub(running.controller.channel).ListVpcs(pb.ListVpcsRequest()).vpcs
    jobs = running.controller.jobs.ListJobs(pb.ListJobsRequest()).jobs
    found = {("vpc", vpc.id): vpc for vpc in vpcs} | {("job", job.job_id): job for job in jobs}
    for client in clients:
        assert not client.faults, client.faults
        for key, known in client.known.items():
            there = found.pop(key, None)
            assert known is Known.EITHER or (there is not None) == (known is Known.THERE), (key, known)
            client.known[key] = Known.THERE if there is not None else Known.GONE
            if isinstance(there, pb.Vpc):
                assert there == client.wanted[key]
            elif there is not None:
                assert there.state == "running", there
                assert [flow.src_nic for flow in there.flows] == list(client.wanted[key].ranks[:1])
                assert there.lease_expires_unix_ms >= started_unix_ms + LEASE_MS, key
    assert not found, found


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.timeout(3_600)
def test_nothing_acknowledged_is_lost_and_nothing_released_returns(tmp_path, kills):
    drawn = random.Random(kills)
    with site(tmp_path) as (running, fakes):
        clients = [Client(number, kills, running.controller.grpc, 16) for number in range(CLIENTS)]
        for _ in range(kills):
            for client in clients:
                client.start()
            wait_for_replies(clients, drawn.randint(1, 15))
            time.sleep(drawn.uniform(0, 0.1))
            started_unix_ms = time.time_ns() // 1_000_000
            running.restart()
            for client in clients:
                client.end()
            check(running, clients, started_unix_ms)
        assert any(known is Known.THERE for client in clients for known in client.known.values())
        wait_until_quiet(fakes)
        before, started_unix_ms = fakes.changes(), time.time_ns() // 1_000_000
        running.restart()
        check(running, clients, started_unix_ms)
        wait_until_quiet(fakes)
        assert fakes.changes() == before  # nothing had changed, so nothing was sent


def wait_for_replies(clients: list[Client], more: int) -> None:
    """Wait until so many more calls were acknowledged."""
    end = time.monotonic() + PATIENCE_S
    wanted = more + sum(client.acknowledged for client in clients)
    while sum(client.acknowledged for client in clients) < wanted:
        assert time.monotonic() < end, [client.faults for client in clients]
        time.sleep(0.002)


def wait_until_quiet(fakes: Switches) -> None:
    """Wait until no rule has come for a while."""
    seen = -1
    while seen != (seen := fakes.changes()):
        time.sleep(0.5)
