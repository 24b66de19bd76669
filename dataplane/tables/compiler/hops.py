"""The rows of `next_hops` and their outer headers. The first rows are the endpoints, in the order of the VPCs.

    0               14                        34          42           50
    +---------------+-------------------------+-----------+------------+
    | Ethernet      | IPv4: DF, TTL 64,       | UDP: 4789 | VXLAN: I,  |    one for each VNI and VTEP,
    | MACs, 0x0800  | length 0, its checksum  | rest 0    | VNI        |    TEMPLATE_STRIDE bytes apart
    +---------------+-------------------------+-----------+------------+

RFC 7348, 5. DF is set because a VTEP must not fragment (4.3). The checksum is that of a header with a total length of
0.
"""

from collections.abc import Sequence

import numpy as np

from heddle.dataplane.config.addresses import gateway_mac, wide
from heddle.dataplane.config.network import Vpc
from heddle.dataplane.jit import Bytes, Grid, Ints, Rows
from heddle.dataplane.packet.checksum import checksum
from heddle.dataplane.packet.ipv4 import TTL
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.packet.vxlan import OUTER_BYTES, VXLAN_PORT
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.compiler.links import Adjacency, Links, address_words
from heddle.foundation.network import Network

TEMPLATE_STRIDE = 64
NETWORKS = tuple(Network)
"""The number of a network in the tables (`realm`) is its position."""


class Hops:
    """All next hops of one generation; equal ones share a row."""

    def __init__(self, links: Links, vpcs: Sequence[Vpc]) -> None:
        self._links = links
        self.counts = np.array([len(vpc.endpoints) for vpc in vpcs], dtype=np.int64)
        self.vnis = np.repeat(np.array([vpc.vni for vpc in vpcs], dtype=np.int64), self.counts)
        self.endpoints = len(self.vnis)
        self.macs = np.array([endpoint.mac for vpc in vpcs for endpoint in vpc.endpoints], dtype=np.int64)
        self.vteps = np.array([int(endpoint.vtep) for vpc in vpcs for endpoint in vpc.endpoints], dtype=np.int64)
        self._hi, self._lo = words_of([wide(endpoint.ip) for vpc in vpcs for endpoint in vpc.endpoints])
        pairs = self.vnis << 32 | self.vteps
        self._pairs, self._pair_of = np.unique(pairs, return_inverse=True)
        self._adjacencies = {
            endpoint.vtep: links.to_vtep(endpoint.vtep)
            for endpoint in {e.vtep: e for vpc in vpcs for e in vpc.endpoints}.values()
        }
        self._others: dict[tuple[int, ...], int] = {}
        self.templates = self._templates()

    def endpoint_keys(self) -> Grid:
        """Return VNI and address of every endpoint, by row."""
        return np.stack([self.vnis, self._hi, self._lo], axis=1)

    def vtep_keys(self) -> Grid:
        """Return VNI and VTEP, each pair once."""
        return np.stack([self._pairs >> 32, self._pairs & WORD], axis=1)

    def local(self, row: int, vni: int) -> int:
        """Return the row of the gateway's own addresses in a VPC."""
        return self._row(schema.LOCAL, vni=vni, vpc=row, source_mac=gateway_mac(vni))

    def discard(self) -> int:
        """Return the row that discards packets."""
        return self._row(schema.DISCARD)

    def peer(self, row: int, vni: int, incarnation: int) -> int:
        """Return the row of a peer VPC."""
        return self._row(schema.PEER, vni=vni, vpc=row, incarnation=incarnation)

    def neighbour(self, kind: int, neighbour: Adjacency, *, vlan: int = 0, realm: int = 0, incarnation: int = 0) -> int:
        """Return the row of a neighbour on a port that is not an underlay port."""
        high, low = address_words(neighbour.address)
        interface = self._links.interfaces[neighbour.port]
        return self._row(
            kind,
            port=neighbour.port,
            mtu_bytes=interface.mtu_bytes,
            target_mac=neighbour.mac,
            source_mac=interface.mac,
            vlan=vlan,
            address=low,
            resolved=int(neighbour.mac != 0),
            realm=realm,
            address_hi=high,
            incarnation=incarnation,
        )

    def _row(self, kind: int, **fields: int) -> int:
        """Return the row with these fields; create it if there is none."""
        row = row_of(kind, **{"mtu_bytes": self._links.inner_mtu_bytes, **fields})
        return self.endpoints + self._others.setdefault(row, len(self._others))

    def rows(self) -> Rows:
        """Return NEXT_HOP rows."""
        found = np.zeros(self.endpoints + len(self._others), dtype=schema.NEXT_HOP)
        tunnels = found[: self.endpoints]
        ports, mtus, addresses, resolved = self._of_adjacencies()
        tunnels["kind"] = schema.TUNNEL
        tunnels["port"] = ports[self._pair_of]
        tunnels["mtu_bytes"] = mtus[self._pair_of]
        tunnels["target_mac"] = self.macs
        tunnels["source_mac"] = gateway_mac(0) | self.vnis
        tunnels["vni"] = self.vnis
        tunnels["vpc"] = np.repeat(np.arange(len(self.counts)), self.counts)
        tunnels["template"] = self._pair_of * TEMPLATE_STRIDE
        tunnels["template_bytes"] = OUTER_BYTES
        tunnels["address"] = addresses[self._pair_of]
        tunnels["resolved"] = resolved[self._pair_of]
        if self._others:
            found[self.endpoints :] = list(self._others)
        return found

    def endpoint_vteps(self) -> Ints:
        """Return `Tables.endpoint_vteps`."""
        return np.concatenate([self.vteps, np.zeros(len(self._others), dtype=np.int64)])

    def _adjacencies_of_pairs(self) -> list[Adjacency]:
        by_number = {int(vtep): adjacency for vtep, adjacency in self._adjacencies.items()}
        return [by_number[vtep] for vtep in (self._pairs & WORD).tolist()]

    def _of_adjacencies(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return port, inner MTU, address and `resolved`, by pair of VNI and VTEP."""
        adjacencies = self._adjacencies_of_pairs()
        mtus = [interface.mtu_bytes - OUTER_BYTES for interface in self._links.interfaces]
        columns = [
            (each.port, mtus[each.port], address_words(each.address)[1], int(each.mac != 0)) for each in adjacencies
        ]
        grid = np.array(columns, dtype=np.int64).reshape(-1, 4)
        return grid[:, 0], grid[:, 1], grid[:, 2], grid[:, 3]

    def _templates(self) -> Bytes:
        """Return the outer headers of all pairs of VNI and VTEP."""
        heads = {int(vtep): self._head(int(vtep), adjacency) for vtep, adjacency in self._adjacencies.items()}
        found = np.zeros((len(self._pairs), TEMPLATE_STRIDE), dtype=np.uint8)
        if heads:
            order = {vtep: row for row, vtep in enumerate(heads)}
            rows = [order[vtep] for vtep in (self._pairs & WORD).tolist()]
            found[:, :OUTER_BYTES] = np.frombuffer(b"".join(heads.values()), np.uint8).reshape(-1, 50)[rows]
        vnis = self._pairs >> 32
        for byte, shift in ((46, 16), (47, 8), (48, 0)):
            found[:, byte] = vnis >> shift & 0xFF
        return found.reshape(-1)

    def _head(self, vtep: int, adjacency: Adjacency) -> bytes:
        """Return the 50 bytes in front of an inner frame to a VTEP, without the VNI."""
        macs = adjacency.mac.to_bytes(6, "big") + self._links.interfaces[adjacency.port].mac.to_bytes(6, "big")
        start = bytes((0x45, 0, 0, 0, 0, 0, 0x40, 0, TTL, 17))
        ends = self._links.vtep.packed + vtep.to_bytes(4, "big")
        ip = start + checksum(start + ends).to_bytes(2, "big") + ends
        udp = bytes(2) + VXLAN_PORT.to_bytes(2, "big") + bytes(4)
        return macs + b"\x08\x00" + ip + udp + bytes((0x08, 0, 0, 0, 0, 0, 0, 0))


def row_of(kind: int, **fields: int) -> tuple[int, ...]:
    """Return a row of NEXT_HOP; a field that is not given is 0, of port and VPC -1, and the MAC counts as known."""
    names = schema.NEXT_HOP.names or ()
    values = {"port": -1, "vpc": -1, "resolved": 1, "kind": kind, **fields}
    assert values.keys() <= set(names)
    return tuple(values.get(name, 0) for name in names)


def words_of(numbers: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the high and the low words of 128-bit numbers, as bit patterns."""
    low = (1 << 64) - 1
    high = np.array([number >> 64 for number in numbers], dtype=np.uint64)
    return high.view(np.int64), np.array([number & low for number in numbers], dtype=np.uint64).view(np.int64)
