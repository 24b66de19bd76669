"""The measured rates of a job's flows are those of streams that are a flow's own, however its flows are held."""

from collections import Counter

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.controller.model.observed import Stream
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.views.flow_rates import measured_of, measured_rates, own_rates
from tests.property.planner.test_changed_flows import BEFORE
from tests.support.examples import examples

ROW = st.integers(0, len(BEFORE) - 1)


def with_turns(table: FlowTable, slots: int) -> FlowTable:
    column = np.full(len(table), slots, dtype=np.int64)
    return table.with_rates(table.rates, Turns(slot=np.zeros_like(column), slots=column, slot_ns=column))


@given(
    st.dictionaries(ROW, st.none() | st.integers(0, 10**12)),
    st.booleans(),
    st.sampled_from((None, 2)),
    st.sampled_from((list, tuple, lambda table: table)),
)
@example({0: 7, 1: 9}, True, None, list)
@settings(max_examples=examples(60), deadline=None)
def test_a_rate_belongs_to_the_one_flow_of_its_stream(measured, twice, slots, held):
    table = BEFORE if slots is None else with_turns(BEFORE, slots)
    flows = held((*table, table[0]) if twice else table)
    rates = {
        Stream(table[row].src_nic, table[row].dst_nic, table[row].udp_source_port): rate
        for row, rate in measured.items()
    }
    keys = [Stream(flow.src_nic, flow.dst_nic, flow.udp_source_port) for flow in flows]
    known = {stream: rate for stream, rate in rates.items() if rate is not None}
    assert own_rates(flows, rates) == {s: r for s, r in known.items() if Counter(keys)[s] == 1}
    found = measured_rates(flows, measured_of(rates))
    pairs = [(key, flow) for key, flow in zip(keys, flows, strict=True) if key in known]
    assert found.flows == len(pairs)
    assert found.measured_bps == sum(known.values())
    assert found.planned_bps == sum(flow.rate_bps / (slots or 1) for _, flow in pairs)
