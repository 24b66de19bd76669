"""Counted errors of a cable in a lab: planned around, or kept at what it has left; the same over a restart; repaired.

An agent reports damaged frames over a real broker, as the switches of a lab count none.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heddle.controller.config import load_fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.telemetry.agent.agent import Agent, AgentSettings
from heddle.telemetry.agent.session import Broker
from heddle.telemetry.agent.source import DeviceSamples
from heddle.telemetry.samples.sample import PortSample
from heddle.telemetry.samples.topic import Source
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.controller_process import Controller
from tests.support.processes.mosquitto import PROGRAM, mosquitto

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path(PROGRAM).exists(), reason="mosquitto is not installed (scripts/setup all)"),
]
FABRIC = (
    "version: 1\nname: worn\n"
    "generate: {{kind: spine_leaf, spines: {spines}, leaves: 2, hosts_per_leaf: 2, gbps: 0.02}}\n"
)
CONFIG = (
    "telemetry: {{broker: '127.0.0.1:{port}', period_ms: 100, raise_periods: 2, loss_raise_ratio: 0.01, "
    "loss_clear_ratio: 0.001, loss_min_errors: 2, loss_clear_periods: 3}}\n"
)
SIZE_BYTES, TIMEOUT_S = 200_000, 60.0


class Worn:
    """The counters of one port: a tenth of what arrives is damaged, unless it was repaired."""

    name, reads_per_period = "a worn cable", 1

    def __init__(self, port: str) -> None:
        self._port, self._packets, self._damaged = port, 0, 0
        self.is_repaired = False

    async def read(self, now_unix_ns: int) -> list[DeviceSamples]:
        self._packets += 1_000
        self._damaged += 0 if self.is_repaired else 100
        sample = PortSample(
            port=self._port, timestamp_unix_ns=now_unix_ns, boot_id=1, rx_packets=self._packets,
            rx_crc_errors=self._damaged,
        )  # fmt: skip
        return [DeviceSamples(Source.SWITCH, self._port.partition(":")[0], [sample])]

    async def close(self) -> None:
        """Nothing is open."""


@contextmanager
def reporting(source: Worn, broker_port: int) -> Iterator[None]:
    """Run an agent in a thread while the context lasts."""
    settings = AgentSettings(fabric="worn", agent="leaf1", period_ns=100_000_000)
    begun, ends = threading.Event(), list[Callable[[], object]]()

    async def run() -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(ended.set))
        begun.set()
        await Agent(settings, Broker(host="127.0.0.1", port=broker_port), [source]).run(ended)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        begun.wait(TIMEOUT_S)
        yield
    finally:
        ends[0]()
        thread.join(TIMEOUT_S)


def link(controller: Controller, name: str) -> pb.Link:
    topology = controller.fabric.GetTopology(pb.GetTopologyRequest())
    return next(each for each in topology.links if each.id == name)


def until(controller: Controller, name: str, holds: Callable[[pb.Link], bool]) -> pb.Link:
    end = time.monotonic() + TIMEOUT_S
    while not holds(found := link(controller, name)):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def plan(controller: Controller) -> pb.JobPlan:
    return controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))


def links_of(found: pb.JobPlan) -> set[str]:
    return {name for flow in found.flows for name in (*flow.links, *flow.reverse_links)}


def sent(lab: Lab, found: pb.JobPlan) -> int:
    """Send what is planned, and return the packets lost."""
    requests = [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=flow.rate_bps, size_bytes=SIZE_BYTES,
        )
        for flow in found.flows
    ]  # fmt: skip
    result = lab.run_flows(requests, TIMEOUT_S)
    assert result.completed
    return sum(flow.lost_packets for flow in result.flows)


@pytest.mark.parametrize(
    ("spines", "decided"),
    [
        pytest.param(4, "left out of plans: the running jobs lose nothing by it", id="left out"),
        pytest.param(2, "kept at what it has left: without it the fullest link would go from", id="kept"),
    ],
)
def test_a_cable_with_counted_errors_is_planned_for_the_same_over_a_restart_until_it_is_repaired(
    tmp_path: Path, spines: int, decided: str
) -> None:
    path, config = tmp_path / "fabric.yaml", tmp_path / "heddle.yaml"
    path.write_text(FABRIC.format(spines=spines))
    with mosquitto() as broker, Lab(load_fabric(path)) as lab:
        config.write_text(CONFIG.format(port=broker.port))
        more = ("--config", str(config), "--state", str(tmp_path / "state"))
        controller = Controller(path, more=more)
        try:
            lab.connect_controller(controller.openflow_port)
            controller.wait_for_rules()
            nics = [nic.id for nic in lab.fabric.nics]
            pairs = [pb.RankPair(src_rank=rank, dst_rank=(rank + 2) % len(nics)) for rank in range(len(nics))]
            collective = pb.Collective(kind="SEND_RECV", bytes=SIZE_BYTES, pairs=pairs)
            first = controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id="a", ranks=nics, collectives=[collective]))
            cable = min(
                name for name in links_of(first) if name in lab.fabric.cable_by_link and name.startswith("leaf1")
            )
            source = Worn(cable.partition(">")[0])
            with reporting(source, broker.port):
                began_s = time.monotonic()
                bad = until(controller, cable, lambda found: decided in found.fault)
                print(f"FIGURES decided {time.monotonic() - began_s:.2f} s after the first errors: {bad.fault}")
            assert 0 < bad.left_bps < bad.capacity_bps
            assert bad.drained is (spines == 4)
            assert (cable in links_of(plan(controller))) is (spines == 2)
            assert sent(lab, plan(controller)) == 0
            before = plan(controller)
            controller.kill()
            controller = Controller(path, openflow=controller.openflow, more=more)
            controller.wait_for_rules()
            again = link(controller, cable)
            assert (again.left_bps, again.drained) == (bad.left_bps, bad.drained)
            assert links_of(plan(controller)) == links_of(before)
            source.is_repaired = True
            with reporting(source, broker.port):
                repaired = until(controller, cable, lambda found: not found.fault)
            assert (repaired.left_bps, repaired.drained) == (0, False)
        finally:
            controller.kill()
