"""The connection table behaves like a dict with a limit, under any order of events."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heddle.dataplane.config.local import Limits
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.connections import (
    NO_ROW,
    State,
    connect,
    end_connection,
    find_connection,
    free_ended_pairs,
)
from heddle.dataplane.gateway.memory.state import AGED_NS, OWNERS_FREED, OWNERS_USED, empty_state
from heddle.dataplane.jit import kernel
from tests.fakes.gateway.gateway_tables import make_tables
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


ROOM, SHARE = 8, 4
LIMITS = Limits(connections=ROOM, mappings=8, fragments=8)
TABLES = make_tables([])
SECOND = 10**9
VNIS = st.sampled_from([1, 2, 0xFFFFFF])
ADDRESSES = st.sampled_from([(0, 0xFFFF_0A00_0001), (0, 0xFFFF_0A00_0002), (-1, -1)])
PORTS = st.sampled_from([0x0001_0002, 0x0002_0001, 0xFFFF_FFFF])
PROTOCOLS = st.sampled_from([17, 6])


@kernel
def found_row(state: State, source_hi, source_lo, target_hi, target_lo, key):
    return find_connection(state, source_hi, source_lo, target_hi, target_lo, key)


@kernel
def next_burst(state: State):
    free_ended_pairs(state)


def key_word(ports, protocol, vni):
    word = ports << 32 | protocol << 24 | vni
    return word - (1 << 64) if word >> 63 else word


def reversed_ports(ports):
    return (ports & 0xFFFF) << 16 | ports >> 16


class ConnectionMachine(RuleBasedStateMachine):
    """At most eight connections, four per endpoint, without translation: a reply is the packet with both ends
    exchanged.
    """

    def __init__(self):
        super().__init__()
        self.state, self.now_ns = empty_state(LIMITS), 10**12
        self.model = {}  # (source, target, ports, protocol, vni) -> [row, last seen]
        self.held = 0

    def reply_to(self, key):
        source, target, ports, protocol, vni = key
        return target, source, reversed_ports(ports), protocol, vni

    def row_of(self, key):
        source, target, ports, protocol, vni = key
        return found_row(self.state, source[0], source[1], target[0], target[1], key_word(ports, protocol, vni))

    @rule(source=ADDRESSES, remote=ADDRESSES, ports=PORTS, protocol=PROTOCOLS, vni=VNIS)
    def open(self, source, remote, ports, protocol, vni):
        key = (source, remote, ports, protocol, vni)
        if key in self.model or self.reply_to(key) in self.model or key == self.reply_to(key):
            return
        draft = self.state.draft[0]
        draft["source_hi"], draft["source_lo"] = draft["new_source_hi"], draft["new_source_lo"] = source
        draft["target_hi"], draft["target_lo"] = draft["new_target_hi"], draft["new_target_lo"] = remote
        draft["key"], draft["new_ports"], draft["out_vni"] = key_word(ports, protocol, vni), ports, vni
        draft["flags"], draft["generation"], draft["mapping"] = 0, 1, -1
        self.state.draft[1]["mapping"] = -1
        row = connect(self.state, SHARE, 100, self.now_ns)
        mine = sum(other[0] == source and other[4] == vni for other in self.model)
        if len(self.model) + self.held >= ROOM or mine >= SHARE:
            assert row < 0
        else:
            assert row >= 0
            self.model[key] = [row, self.now_ns]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), from_answers=st.booleans())
    def end(self, data, from_answers):
        key = data.draw(st.sampled_from(sorted(self.model)))
        end_connection(self.state, self.model.pop(key)[0] + from_answers)
        self.held += 1

    @precondition(lambda self: self.model)
    @rule(data=st.data(), by_answer=st.booleans())
    def packet(self, data, by_answer):
        key = data.draw(st.sampled_from(sorted(self.model)))
        row = self.row_of(self.reply_to(key) if by_answer else key)
        self.state.connections[row]["last_seen_ns"] = self.now_ns
        self.model[key][1] = self.now_ns

    @rule()
    def burst(self):
        next_burst(self.state)
        self.held = 0

    @rule(seconds=st.sampled_from([1, 60, 130, 250]))
    def time_passes(self, seconds):
        # First time alone, then ageing's whole round at that time: which rows end is exact then.
        self.now_ns += seconds * SECOND
        self.state.counts[AGED_NS] = self.now_ns - 4 * SECOND
        ended = age(TABLES, self.state, self.now_ns)
        limit = {17: 120, 6: 240}
        old = [key for key, (_, seen) in self.model.items() if self.now_ns - seen > limit[key[3]] * SECOND]
        for key in old:
            del self.model[key]
        self.held += len(old)
        assert ended == len(old)

    @invariant()
    def the_table_contains_exactly_the_models_connections(self):
        for key, (row, _) in self.model.items():
            assert self.row_of(key) == row
            assert self.row_of(self.reply_to(key)) == row ^ 1
            assert self.row_of((*key[:4], 3)) == NO_ROW
        assert np.count_nonzero(self.state.connections["key"]) == 2 * len(self.model)
        assert np.count_nonzero(self.state.slots) == 2 * len(self.model)

    @invariant()
    def every_endpoints_account_is_its_number_of_connections(self):
        owners = {(key[4], key[0]) for key in self.model}
        counts = self.state.counts
        assert counts[OWNERS_USED] - counts[OWNERS_FREED] == len(owners)
        assert np.count_nonzero(self.state.owner_index) == len(owners)
        rows = {self.state.connections[row]["owner"] for row, _ in self.model.values()}
        assert sum(int(self.state.owners["connections"][row]) for row in rows) == len(self.model)


TestConnections = ConnectionMachine.TestCase
TestConnections.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
