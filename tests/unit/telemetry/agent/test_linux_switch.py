"""The ports of a Linux router: veths of a network namespace of this test."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from heddle.telemetry.agent.source import SourceError
from heddle.telemetry.agent.sources.linux_switch import LinuxSwitch

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace takes root")
LINKS = """\
link add swp1 type veth peer name far1
link add swp2 type veth peer name far2
link set swp1 up
link set far1 up
link set swp2 up
"""


@pytest.fixture
def router() -> Iterator[int]:
    """A network namespace with swp1, whose cable is up, and swp2, whose other end is down; its process."""
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        ip(holder.pid, "-batch", "-", text=LINKS)
        yield holder.pid
    finally:
        holder.kill()
        holder.communicate()


def ip(pid: int, *words: str, text: str = "") -> None:
    entrance = ["nsenter", f"--net=/proc/{pid}/ns/net"]
    subprocess.run([*entrance, "ip", *words], input=text, text=True, check=True)


async def ports(source: LinuxSwitch):
    (device,) = await source.read(1_000)
    assert device.device == "leaf1"
    return {sample.port: sample for sample in device.samples}


async def test_carrier_is_that_of_the_cable_and_follows_it(router):
    source = LinuxSwitch("leaf1", {"swp1": 1, "swp2": 7}, router)
    found = await ports(source)
    assert {name: sample.carrier for name, sample in found.items()} == {"leaf1:1": True, "leaf1:7": False}
    ip(router, "link", "set", "swp1", "down")
    ip(router, "link", "set", "far2", "up")
    later = await ports(source)
    assert {name: sample.carrier for name, sample in later.items()} == {"leaf1:1": False, "leaf1:7": True}
    assert later["leaf1:1"].boot_id == found["leaf1:1"].boot_id
    assert (later["leaf1:1"].flaps, later["leaf1:1"].rx_crc_errors) == (found["leaf1:1"].flaps + 1, 0)
    assert (later["leaf1:1"].speed_bps, later["leaf1:1"].fec_uncorrectable_codewords) == (None, None)
    await source.close()


async def test_counters_are_those_of_the_interface_and_of_its_queue(router):
    source = LinuxSwitch("leaf1", {"swp1": 1}, router)
    entrance = ["nsenter", f"--net=/proc/{router}/ns/net"]
    shape = ["tc", "qdisc", "replace", "dev", "swp1", "root", "tbf", "rate", "8bit", "burst", "100", "limit", "100"]
    subprocess.run([*entrance, *shape], check=True)
    before = (await ports(source))["leaf1:1"]
    ip(
        router,
        "-batch",
        "-",
        text="addr add 10.0.0.1/24 dev swp1\nneigh add 10.0.0.2 lladdr 02:00:00:00:00:01 dev swp1\n",
    )
    subprocess.run(
        [*entrance, "ping", "-c", "3", "-i", "0.01", "-W", "0.1", "10.0.0.2"], check=False, capture_output=True
    )
    after = (await ports(source))["leaf1:1"]
    assert after.drops - before.drops >= 3
    await source.close()


async def test_a_router_without_any_of_its_interfaces_is_a_fault_of_the_source(router):
    source = LinuxSwitch("leaf1", {"swp9": 9}, router)
    with pytest.raises(SourceError, match="no interface of these: swp9"):
        await source.read(1_000)
    await source.close()
