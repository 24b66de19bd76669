"""Hypothesis strategies for rules and groups of every shape that the model allows."""

from hypothesis import strategies as st

from heddle.controller.model.rule import FlowRule, GotoTable, GroupRule, Masked, Match, Output, ToGroup

PORTS = st.integers(1, 0xFFFFFF00 - 1)
GROUP_IDS = st.integers(0, 0xFFFFFF00)


def masked(bits):
    full = (1 << bits) - 1
    pairs = st.tuples(st.integers(0, full), st.one_of(st.just(full), st.integers(1, full)))
    return st.none() | pairs.map(lambda pair: Masked(pair[0] & pair[1], pair[1]))


MATCHES = st.builds(
    Match,
    in_port=st.none() | PORTS,
    eth_type=st.none() | st.sampled_from([0x0800, 0x0806, 0x8808]),
    ip_proto=st.none() | st.just(17),
    ipv4_src=masked(32),
    ipv4_dst=masked(32),
    udp_src=masked(16),
    udp_dst=st.none() | st.just(4791),
    arp_tpa=masked(32),
)
ACTIONS = st.tuples(
    st.lists(st.builds(Output, PORTS) | st.builds(ToGroup, GROUP_IDS), max_size=3).map(tuple),
    st.just(()) | st.builds(GotoTable, st.integers(0, 253)).map(lambda action: (action,)),
).map(lambda parts: parts[0] + parts[1])
RULES = st.builds(
    FlowRule,
    table=st.integers(0, 254),
    priority=st.integers(0, 0xFFFF),
    match=MATCHES,
    actions=ACTIONS,
    cookie=st.integers(0, 2**64 - 1),
)
GROUPS = st.builds(GroupRule, group_id=GROUP_IDS, ports=st.lists(PORTS, max_size=5).map(tuple))
