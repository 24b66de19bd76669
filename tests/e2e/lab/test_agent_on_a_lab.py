"""`heddle agent` on a lab of real switches under incast, over a real broker that is killed during the run."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.telemetry.counter_page import PORT_FIELDS, QUEUE_FIELDS
from tests.fakes.telemetry.telemetry_listener import listening
from tests.support.fabrics.small_fabrics import spine_leaf
from tests.support.processes.mosquitto import PROGRAM, mosquitto

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.alone,
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
    pytest.mark.skipif(not Path(PROGRAM).exists(), reason="Debian's mosquitto is not installed (scripts/setup all)"),
]
LEVELS = {"depth_bytes", "max_depth_bytes", "watchdog_trips", "watchdog_restores"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    fabric = spine_leaf(2, 2, 4)
    with Lab(fabric, settings=replace(NicSettings.for_fabric(fabric), dcqcn=True), queues=QueueSettings()) as lab:
        lab.ecmp.load()
        yield lab


def incast(size_bytes: int) -> list[FlowRequest]:
    return [
        FlowRequest(
            flow_id=f"in{number}", src_nic=f"h{number}-n0", dst_nic="h4-n0", udp_source_port=0xC000 + number,
            reverse_udp_source_port=0xD000 + number, rate_bps=20_000_000, size_bytes=size_bytes,
        )
        for number in (1, 2, 3)
    ]  # fmt: skip


def counters_on_page(lab: Lab) -> dict[str, tuple[list[int], list[list[int]]]]:
    """Return every port's counters without levels, by port and by priority, from the lab's counter page."""
    page = lab.queues.counters()
    fields = [at for at, name in enumerate(QUEUE_FIELDS) if name not in LEVELS]
    return {name: (page.ports[at].tolist(), page.queues[at][:, fields].tolist()) for at, name in enumerate(page.names)}


def counters_in_samples(samples) -> dict[str, tuple[list[int], list[list[int]]]]:
    """Return the same counters from samples that arrived over the broker."""
    fields = [name for name in QUEUE_FIELDS if name not in LEVELS]
    return {
        sample.port: (
            [getattr(sample, name) for name in PORT_FIELDS],
            [[getattr(queue, name) for name in fields] for queue in sample.queues],
        )
        for sample in samples
    }


async def test_what_the_switches_count_arrives_also_when_the_broker_dies_under_incast(lab):
    directory = lab.counters_directory.parent
    with mosquitto() as broker:
        command = [
            sys.executable,
            "-m",
            "heddle.programs.console.main",
            "agent",
            "--fabric",
            "lab",
            "--source",
            "emulated",
        ]
        agent = subprocess.Popen(
            [*command, "--lab", str(directory), "--broker", f"127.0.0.1:{broker.port}"], stdout=subprocess.PIPE
        )
        try:
            assert agent.stdout is not None
            assert json.loads(agent.stdout.readline())["ready"]
            async with listening(broker.port) as heard:
                await heard.until(lambda: heard.of("leaf1:1"))
                traffic = asyncio.create_task(asyncio.to_thread(lab.run_flows, incast(1_500_000), 60))
                await asyncio.sleep(0.7)
                broker.kill()
                await asyncio.sleep(0.7)
                broker.start()
                result = await traffic
                assert result.completed
                settled = counters_on_page(lab)
                names = set(settled) | {nic.id for nic in lab.fabric.nics}
                so_far = len(heard.samples)
                await heard.until(lambda: {one.port for one in heard.samples[so_far + len(names) :]} >= names)
                latest = {one.port: one for one in heard.samples}
                assert counters_in_samples(latest[name] for name in settled) == settled == counters_on_page(lab)
        finally:
            agent.terminate()
            agent.communicate(timeout=20)
    assert agent.returncode == 0
    receiver = latest["h4-n0"]
    counters = result.nics["h4-n0"].counters
    assert receiver.nic_counters["np_cnp_sent"] >= counters["np_cnp_sent"] > 0
    assert receiver.nic_counters["np_ecn_marked_roce_packets"] > 0
    marked = sum(queue.ecn_marked_packets for port in settled for queue in latest[port].queues)
    assert marked >= receiver.nic_counters["np_ecn_marked_roce_packets"]
    for name in names:
        found = heard.of(name)
        assert [one.sequence for one in found] == sorted({one.sequence for one in found})
        assert [one.tx_bytes for one in found] == sorted(one.tx_bytes for one in found)
        assert len({one.boot_id for one in found}) == 1
