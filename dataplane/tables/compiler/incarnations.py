"""Name incarnations of VPCs, peerings, direct connects and floating IPs by words, the same in both gateways of a pair.

A word is a hash of what something is and of its number (`config.incarnations`), so a connection that is copied to the
partner, or outlives the tables that admitted it, belongs to the same thing there and then, or to none.
"""

from hashlib import blake2b

import numpy as np

from heddle.dataplane.config.network import DirectConnect, FloatingIp, NetworkConfig, Vpc
from heddle.dataplane.jit import Grid, Ints
from heddle.dataplane.tables.compiler.index import indexed

WORD_BYTES = 8


class Incarnations:
    """The words of one generation, each with the number that it was made of."""

    def __init__(self, network: NetworkConfig) -> None:
        self._numbers: dict[int, int] = {}
        self._vpcs = {vpc.id: self._word(vpc.incarnation, vpc.id, vpc.tenant, vpc.vni) for vpc in network.vpcs}
        self._peerings = {
            (each.a, each.b): self._word(each.incarnation, self._vpcs[each.a], self._vpcs[each.b])
            for each in network.peerings
        }

    def vpcs(self) -> Ints:
        """Return `Tables.vpc_incarnations`."""
        return np.array(list(self._vpcs.values()), dtype=np.int64)

    def peering(self, one: str, other: str) -> int:
        """Return the word of the peering of two VPCs, given in any order."""
        return self._peerings[min(one, other), max(one, other)]

    def connect(self, vpc: Vpc, connect: DirectConnect) -> int:
        """Return the word of a direct connect."""
        return self._word(connect.incarnation, self._vpcs[vpc.id], connect.vlan, str(connect.customer))

    def floating(self, vpc: Vpc, floating: FloatingIp) -> int:
        """Return the word of a floating IP."""
        return self._word(floating.incarnation, self._vpcs[vpc.id], int(floating.public), int(floating.endpoint))

    def table(self) -> Grid:
        """Return `Tables.incarnations`, of all words so far."""
        words = np.array(list(self._numbers), dtype=np.int64).reshape(-1, 1)
        return indexed(words, np.array(list(self._numbers.values()), dtype=np.int64))

    def _word(self, number: int, *what: str | int) -> int:
        """Return a positive word, and keep its number."""
        digest = blake2b(repr((*what, number)).encode(), digest_size=WORD_BYTES).digest()
        word = int.from_bytes(digest, "big") >> 1 or 1
        self._numbers[word] = number
        return word
