"""Trace the path of a stream through the lab's switches with Open vSwitch's `ofproto/trace`."""

import re

from heddle.controller.model.address import ip_text
from heddle.controller.model.fabric import Nic, PortRef
from heddle.foundation.address import mac_text
from heddle.mininet_topos.measure.flow_run import FiveTuple
from heddle.mininet_topos.switches.fabric_net import FabricNet
from heddle.mininet_topos.wire.roce import ROCE_PORT

MAX_HOPS = 16
_OUTPUT = re.compile(r"^\s*output:(\d+)\s*$", re.MULTILINE)


class PathTracer:
    """Follows RoCE streams hop by hop through the installed rules."""

    def __init__(self, net: FabricNet) -> None:
        """Index the fabric by port and address."""
        self._net = net
        fabric = net.fabric
        self._nic_by_ip = {nic.ip: nic for nic in fabric.nics}
        self._next: dict[PortRef, tuple[str, PortRef | None]] = {nic.port: (nic.down_link, None) for nic in fabric.nics}
        for cable in fabric.cables:
            self._next[cable.lower] = (cable.up_link, cable.upper)
            self._next[cable.upper] = (cable.down_link, cable.lower)

    def path_of(self, stream: FiveTuple) -> tuple[str, ...]:
        """Return the directed link ids from NIC to NIC; the path ends at the switch that drops the stream, if any."""
        source, destination = self._nic_by_ip[stream.src_ip], self._nic_by_ip[stream.dst_ip]
        links, at = [source.up_link], source.port
        for _ in range(MAX_HOPS):
            out = self._output(at, source, destination, stream)
            if out is None or out not in self._next:
                break
            link, entered = self._next[out]
            links.append(link)
            if entered is None:
                break
            at = entered
        return tuple(links)

    def _output(self, at: PortRef, source: Nic, destination: Nic, stream: FiveTuple) -> PortRef | None:
        flow = (
            f"in_port={at.number},udp,dl_src={mac_text(source.mac)},dl_dst={mac_text(destination.mac)},"
            f"nw_src={ip_text(source.ip)},nw_dst={ip_text(destination.ip)},nw_ttl=64,"
            f"udp_src={stream.udp_source_port},udp_dst={ROCE_PORT}"
        )
        trace = self._net.ovs.appctl("ofproto/trace", self._net.bridge_of[at.switch], flow)
        outputs = _OUTPUT.findall(trace)
        return PortRef(at.switch, int(outputs[-1])) if outputs else None
