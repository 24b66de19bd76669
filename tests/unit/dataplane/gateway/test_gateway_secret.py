"""An attacker that knows the hash function, but not the seed, cannot choose keys that exhaust a gateway's buckets."""

import numpy as np
import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.buckets import SLOTS, first_slot
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.engine.hashing import mixed5
from heddle.dataplane.gateway.memory.connections import State, connect, find_connection
from heddle.dataplane.gateway.memory.state import empty_state
from heddle.dataplane.jit import kernel

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

LIMITS = Limits(connections=64, mappings=8, fragments=8)
SOURCE, TARGET = 0xFFFF_0A00_0001, 0xFFFF_0A00_0002
UDP_OF_VPC_5 = 17 << 24 | 5
SECRETS = [0x1234_5678_9ABC_DEF1, -2, 0x0F0F_0F0F_3333_5555]


@kernel
def colliding(slots, seed, found):
    """Fill `found` with ports whose connections all have the two buckets of the first."""
    first, count = -1, 0
    for ports in range(1, 1 << 24):
        hashed = mixed5(0, SOURCE, 0, TARGET, ports << 32 | UDP_OF_VPC_5, seed)
        buckets = first_slot(slots, hashed, 0) << 32 | first_slot(slots, hashed, 1)
        if first < 0:
            first = buckets
        if buckets == first:
            found[count] = ports
            count += 1
            if count == found.shape[0]:
                break
    return count


@kernel
def opened(state: State, ports):
    """Open a connection; return its row, and the row found under its key."""
    draft = state.draft[0]
    draft.source_hi, draft.source_lo = 0, SOURCE
    draft.target_hi, draft.target_lo = 0, TARGET
    draft.new_source_hi, draft.new_source_lo = 0, SOURCE
    draft.new_target_hi, draft.new_target_lo = 0, TARGET
    draft.key, draft.new_ports, draft.out_vni = ports << 32 | UDP_OF_VPC_5, ports, 5
    draft.flags, draft.generation, draft.mapping = 0, 1, -1
    state.draft[1].mapping = -1
    row = connect(state, 64, 100, 1)
    return row, find_connection(state, 0, SOURCE, 0, TARGET, ports << 32 | UDP_OF_VPC_5)


def flooded(ports, secret):
    """Return how many connections of those ports a gateway with a given seed admits, each found under its key."""
    state = empty_state(LIMITS)
    state.counts[SEED] = secret
    rows = [opened(state, np.int64(port)) for port in ports]
    assert all(row == found for row, found in rows if row >= 0)
    return sum(row >= 0 for row, _ in rows)


def test_ports_that_collide_under_one_secret_fill_buckets_under_no_other():
    ports = np.zeros(40, dtype=np.int64)
    assert colliding(empty_state(LIMITS).slots, np.int64(0), ports) == len(ports)
    assert flooded(ports, 0) <= 2 * SLOTS  # the attack is real where the secret is known
    assert [flooded(ports, secret) for secret in SECRETS] == [len(ports)] * len(SECRETS)
