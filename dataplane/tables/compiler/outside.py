"""The tables for packets from outside of the VPCs: public addresses, and customers' VLANs."""

from collections.abc import Sequence

import numpy as np

from heddle.dataplane.config.addresses import wide, wide_length
from heddle.dataplane.config.network import Vpc
from heddle.dataplane.jit import Grid
from heddle.dataplane.tables.compiler.hops import words_of
from heddle.dataplane.tables.compiler.incarnations import Incarnations
from heddle.dataplane.tables.compiler.index import indexed
from heddle.dataplane.tables.compiler.links import Links
from heddle.dataplane.tables.compiler.rules import FULL
from heddle.dataplane.tables.schema import FLOATING_ENDPOINT, FLOATING_PUBLIC, FLOATING_VNI, VLAN_OF_IPV6

VLAN_BITS = 12


class Outside:
    """The tables in which packets from the internet or from a customer are looked up."""

    def __init__(self, links: Links, vpcs: Sequence[Vpc], incarnations: Incarnations) -> None:
        self._customer = links.customer
        self._floating = [
            (int(floating.public), int(floating.endpoint), vpc.vni, row, incarnations.floating(vpc, floating))
            for row, vpc in enumerate(vpcs)
            for floating in vpc.floating_ips
        ]
        self._nat = [(int(vpc.nat), row) for row, vpc in enumerate(vpcs) if vpc.nat is not None]
        self._connects = [(row, vpc, connect) for row, vpc in enumerate(vpcs) for connect in vpc.direct_connects]

    def floating(self) -> Grid:
        """Return `Tables.floating`."""
        return grid(self._floating, 5)

    def floating_in(self) -> Grid:
        """Return the index by public address."""
        return indexed(self.floating()[:, [FLOATING_PUBLIC]], np.arange(len(self._floating)))

    def floating_out(self) -> Grid:
        """Return the index by VNI and endpoint."""
        return indexed(self.floating()[:, [FLOATING_VNI, FLOATING_ENDPOINT]], np.arange(len(self._floating)))

    def nat_in(self) -> Grid:
        """Return the index of NAT addresses: of VPCs that share one, the first."""
        rows = grid(self._nat, 2)
        return indexed(rows[:, :1], rows[:, 1])

    def vlans(self) -> Grid:
        """Return the index of customers by port, VLAN and family; empty without a customer port.

        A family without a connection has that of the other one, so that its packets are of a known VPC.
        """
        if self._customer is None:
            return indexed(grid([], 1), np.arange(0))
        rows: dict[int, int] = {}
        for row, (_, _, connect) in enumerate(self._connects):
            link = self._customer << VLAN_BITS | connect.vlan
            own, other = (VLAN_OF_IPV6, 0) if connect.customer.version == 6 else (0, VLAN_OF_IPV6)
            rows[own | link] = row
            rows.setdefault(other | link, row)
        return indexed(grid([(key,) for key in rows], 1), np.array(list(rows.values()), dtype=np.int64))

    def customers(self) -> Grid:
        """Return `Tables.customers`."""
        prefixes = [connect.customer for _, _, connect in self._connects]
        networks = words_of([wide(prefix.network_address) for prefix in prefixes])
        masks = words_of([FULL << (128 - wide_length(prefix)) & FULL for prefix in prefixes])
        vpcs = grid([(vpc.vni, row) for row, vpc, _ in self._connects], 2)
        return np.concatenate([vpcs, np.stack([*networks, *masks], axis=1)], axis=1)


def grid(rows: Sequence[Sequence[int]], columns: int) -> Grid:
    """Return rows as an array with the given number of columns, even if there are no rows."""
    return np.array(rows, dtype=np.int64).reshape(-1, columns)
