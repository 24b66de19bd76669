"""The lab's interface to the queue model: configure the queue daemon, read its counters, stop it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.child import Child
from heddle.mininet_topos.host.priorities import SWITCH_NICENESS, set_niceness
from heddle.mininet_topos.queues.attach import QueueModelPrograms
from heddle.mininet_topos.queues.description import LabPorts, NicEnd, SwitchPort, to_wire
from heddle.mininet_topos.queues.settings import REFERENCE_RATE_BPS, QueueSettings
from heddle.mininet_topos.switches.fabric_net import FabricNet, port_rates
from heddle.mininet_topos.wire.shaping import QueueCounters
from heddle.telemetry.counter_page import PORT_FIELDS, CounterPageReader, CounterSnapshot

PAGE_FILE = "counters"
DAEMON_COMMAND = (sys.executable, "-m", "heddle.mininet_topos.queues.daemon")


class QueueModel:
    """The running queue model of a lab; any process can read its counters from the page at `page_path`."""

    def __init__(self, child: Child, page_path: Path, interface_of: Mapping[str, str]) -> None:
        """Use a daemon that is configured already; call `start` instead."""
        self._child, self.page_path, self._interface_of = child, page_path, interface_of
        self._page = CounterPageReader(page_path)

    @classmethod
    def start(cls, net: FabricNet, settings: QueueSettings, directory: Path, child: Child) -> "QueueModel":
        """Attach the queues to a lab's links and run them; raises PrerequisiteError with the reason in one line.

        `child` runs `DAEMON_COMMAND`; the lab starts it early, so that it initialises while the links are created.
        """
        page_path = directory / PAGE_FILE
        set_niceness(child.pid, SWITCH_NICENESS)
        child.send_request(op="configure", page=str(page_path), **to_wire(lab_ports(net), settings))
        child.read_reply()
        return cls(child, page_path, {str(port): name for port, name in net.interface_of.items()})

    def counters(self) -> CounterSnapshot:
        """Return the current counters, by port ("leaf1:3") and priority."""
        self._child.send_request(op="write")
        self._child.read_reply()
        return self._page.read()

    def latest(self) -> CounterSnapshot:
        """Return the counters that the daemon wrote last, at most some 15 ms ago, without a request to it."""
        return self._page.read()

    def report(self) -> Mapping[str, Any]:
        """Return statistics of the daemon itself: ticks, longest tick, processor time, bytes written off."""
        self._child.send_request(op="report")
        return self._child.read_reply()

    def egress_counters(self) -> Mapping[str, QueueCounters]:
        """Return the egress counters of every port, summed over its priorities, by interface."""
        snapshot = self.counters()
        found = {}
        for row, name in enumerate(snapshot.names):
            queues = [snapshot.queue(name, priority) for priority in range(snapshot.queues.shape[1])]
            port = dict(zip(PORT_FIELDS, map(int, snapshot.ports[row]), strict=True))
            backlog = sum(queue["depth_bytes"] for queue in queues)
            found[self._interface_of[name]] = QueueCounters(port["tx_packets"], port["drops"], backlog)
        return found

    def stop(self) -> None:
        """Unmap the counter page and close the daemon's input, which ends it."""
        self._page.close()
        self._child.close()


def lab_ports(net: FabricNet) -> LabPorts:
    """Return the ports of a lab for the daemon's configuration."""
    fabric = net.fabric
    rates = port_rates(fabric)
    slot_of = {port: slot for slot, (port, _) in enumerate(rates)}
    peer_of = {cable.lower: cable.upper for cable in fabric.cables}
    peer_of |= {upper: lower for lower, upper in peer_of.items()}
    number_of = {switch.id: number for number, switch in enumerate(fabric.switches, start=1)}
    ports = tuple(
        SwitchPort(
            name=str(port),
            interface=net.interface_of[port],
            switch=number_of[port.switch],
            peer=slot_of[peer_of[port]] if port in peer_of else None,
            rate_bps=rate,
        )
        for port, rate in rates
    )
    nics = tuple(
        NicEnd(pid=net.host(nic.host).pid, device=net.device_of[nic.id], slot=slot_of[nic.port]) for nic in fabric.nics
    )
    return LabPorts(ports=ports, nics=nics)


def why_unavailable() -> str | None:
    """Try to load the programs; return in one line why this machine cannot run the queue model, None if it can."""
    port = SwitchPort(name="probe", interface="", switch=1, peer=None, rate_bps=REFERENCE_RATE_BPS)
    try:
        QueueModelPrograms(LabPorts(ports=(port,), nics=()), QueueSettings()).close()
    except PrerequisiteError as fault:
        return str(fault)
    return None
