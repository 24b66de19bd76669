"""Write the routes by which the kernel of a host encapsulates IPv4 packets for their path (ip-route(8), seg6).

A kernel's route selects by destination, so a pair of NICs has one path: that of its first flow, or where only the other
end sends data, that of its first flow's ACKs.
"""

from collections.abc import Iterable, Iterator

from heddle.controller.model.address import ip_text, ipv6_text
from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.plan import FlowPlan
from heddle.controller.model.srv6 import Sids, prefix_text

_NEEDS = "CONFIG_IPV6_SEG6_LWTUNNEL, Linux 4.14 or later"
_SWITCH = "/proc/sys/net/ipv6/conf/$dev/disable_ipv6"


class HostRoutes:
    """The paths of all pairs of NICs that exchange packets by some flows."""

    def __init__(self, fabric: Fabric, sids: Sids, flows: Iterable[FlowPlan]) -> None:
        """Take the paths of flows, by sender and receiver."""
        self._fabric, self._sids = fabric, sids
        data: dict[str, dict[str, list[int]]] = {}
        acks: dict[str, dict[str, list[int]]] = {}
        for flow in flows:
            _add(data, flow.src_nic, flow.dst_nic, sids.destination(flow.links, flow.dst_nic))
            _add(acks, flow.dst_nic, flow.src_nic, sids.destination(flow.reverse_links, flow.src_nic))
        self._paths = {source: acks.get(source, {}) | data.get(source, {}) for source in data | acks}

    @property
    def nics(self) -> list[str]:
        """Return the NICs that send or receive, in the order of the fabric."""
        return [nic.id for nic in self._fabric.nics if nic.id in self._paths]

    def lines(self, nic: str) -> Iterator[str]:
        """Yield the commands of a NIC, for a shell on its host; its device is the one that has its address."""
        own = self._fabric.nic_by_id[nic]
        address, reached = ip_text(own.ip), prefix_text(self._sids.arriving(own))
        yield from _device(nic, address)
        yield f"ip sr tunsrc set {ipv6_text(self._sids.source(own))}"
        yield f'ip -6 route replace {reached} encap seg6local action End.DX4 nh4 {address} dev "$dev" || \\'
        yield f"  {_end(f'{nic}: this kernel has no SRv6: use one with {_NEEDS}')}"
        for far, paths in sorted(self._paths[nic].items(), key=lambda item: self._fabric.nic_by_id[item[0]].ip):
            yield self._route(self._fabric.nic_by_id[far], address, paths)

    def _route(self, far: Nic, own_address: str, paths: list[int]) -> str:
        encapsulation = f"encap seg6 mode encap.red segs {ipv6_text(paths[0])}"
        line = f'ip route replace {ip_text(far.ip)}/32 dev "$dev" src {own_address} {encapsulation}'
        others = len(set(paths)) - 1
        return f"{line}  # {far.id}" + (f"; {others} more planned paths are not taken" if others else "")


def _device(nic: str, address: str) -> Iterator[str]:
    """Yield the commands that find a NIC's device and end the script where it is missing or has no IPv6."""
    yield f"dev=$(ip -o -4 address show to {address} | awk '{{print $2; exit}}')"
    yield f'[ "$dev" ] || {_end(f"{nic}: no device here has {address}: run this on its host, in its namespace")}'
    yield f'[ "$(cat {_SWITCH})" = 0 ] || {_end(f"{nic}: IPv6 is off at $dev: echo 0 >{_SWITCH}")}'


def _end(text: str) -> str:
    """Return the words of a shell that print a line and end the script as malformed input does."""
    return f'{{ echo "{text}" >&2; exit 2; }}'


def _add(paths: dict[str, dict[str, list[int]]], source: str, target: str, destination: int) -> None:
    paths.setdefault(source, {}).setdefault(target, []).append(destination)
