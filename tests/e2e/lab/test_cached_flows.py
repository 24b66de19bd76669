"""The switches of a lab forward by the rules of the moment, whatever their datapath had cached before."""

import re
from collections.abc import Iterator
from types import TracebackType

import pytest

from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.switches.ovs import Datapath, OpenVSwitch
from tests.support.fabrics.small_fabrics import spine_leaf

pytestmark = pytest.mark.e2e

BRIDGE, PORTS = "pins", range(1, 6)
UDP = "eth_type(0x0800),ipv4(src=10.0.0.1,dst={},proto=17,tos=0,ttl=64,frag=no),udp(src=50000,dst=4791)"
TCP = "eth_type(0x0800),ipv4(src=10.0.0.1,dst={},proto=6,tos=0,ttl=64,frag=no),tcp(src=1,dst=2),tcp_flags(0x002)"
PIN = "table=1,priority=900,udp,nw_src=10.0.0.1,nw_dst=10.0.0.2"


class Switch:
    """A bridge of a lab's Open vSwitch with ports that a test writes to and counts."""

    def __init__(self, ovs: OpenVSwitch) -> None:
        self.ovs = ovs
        ports = [("--", "add-port", BRIDGE, f"{BRIDGE}{n}", "--", "set", "interface", f"{BRIDGE}{n}", "type=dummy",
                  f"ofport_request={n}") for n in PORTS]  # fmt: skip
        bridge = ("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=dummy", "fail_mode=secure")
        ovs.vsctl(*bridge, *(word for port in ports for word in port))

    def __enter__(self) -> "Switch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ovs.vsctl("del-br", BRIDGE)

    def change(self, command: str, rule: str, *options: str) -> None:
        """Change rules; return once the cached flows have been checked against them."""
        self.ovs.ofctl("-O", "OpenFlow13", *options, command, BRIDGE, rule)
        self.ovs.appctl("revalidator/wait")

    def send(self, packet: str, destination: str, count: int = 1) -> None:
        """Let packets come in by port 1."""
        ends = "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02)"
        for _ in range(count):
            self.ovs.appctl("netdev-dummy/receive", f"{BRIDGE}1", f"{ends},{packet.format(destination)}")

    def sent(self) -> dict[int, int]:
        """Return the packets that each port has sent, where it has sent any."""
        rows = self.ovs.ofctl("-O", "OpenFlow13", "dump-ports", BRIDGE)
        found = re.findall(r"port +\"?(?:\w*?)(\d+)\"?: rx.*\n +tx pkts=(\d+)", rows)
        return {int(port): int(count) for port, count in found if int(count)}


@pytest.fixture(scope="module")
def switch() -> Iterator[Switch]:
    with Lab(spine_leaf(1, 1, 2), datapath=Datapath.USERSPACE) as lab, Switch(lab.ovs) as found:
        yield found


def test_a_pin_that_comes_back_steers_the_packets_that_an_older_cached_flow_matched(switch):
    """Cached flows of the pair and of all overlap: without `forget_flows` 3.1.0 sends the last packets to port 3."""
    for rule in ("priority=10,udp,actions=goto_table:1", "priority=10,tcp,actions=output:3",
                 "table=1,priority=0,actions=output:3", f"{PIN},actions=output:2"):  # fmt: skip
        switch.change("add-flow", rule)
    switch.send(TCP, "10.0.0.2")
    switch.send(UDP, "10.0.0.2")
    switch.change("del-flows", PIN, "--strict")
    switch.send(UDP, "10.0.0.8", 2)
    switch.change("mod-flows", "table=1,priority=0,actions=output:4")
    switch.change("add-flow", f"{PIN},actions=output:5")
    before = switch.sent()
    switch.ovs.forget_flows()
    switch.send(UDP, "10.0.0.2", 3)
    assert switch.sent() == {**before, 5: 3}
