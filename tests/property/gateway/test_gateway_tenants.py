"""Isolation of two tenants with equal addresses: the traffic of one changes no packet of the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.config.local import Limits
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeRule, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, Sent, StateBench
from tests.oracles.inet_checksum import echo, icmp_error, ipv4, read, tcp, udp

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


LIMITS = Limits(connections=1 << 8, mappings=1 << 7, fragments=1 << 6)
PUBLIC = {5: "198.51.100.5", 6: "198.51.100.6"}
FLOATING = {5: "203.0.113.5", 6: "203.0.113.6"}


def vpc(vni, rules_in):
    return FakeVpc(
        vni,
        endpoints=("10.0.0.1", "10.0.0.2", "10.0.0.3"),
        routes={"0.0.0.0/0": EXTERNAL},
        rules_in=rules_in,
        nat=PUBLIC[vni],
        floating={FLOATING[vni]: "10.0.0.3"},
    )


VPCS = [vpc(5, (FakeRule(remote="8.0.0.0/8"),)), vpc(6, (FakeRule(allow=False, remote="10.0.0.2/32"),))]

ENDPOINTS = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"])
PORTS = st.sampled_from([1, 2, 4791])
TARGETS = st.one_of(ENDPOINTS, st.sampled_from(["8.8.8.8", "9.9.9.9"]))
FLAGS = st.sampled_from(["S", "SA", "A", "R", "FA"])
INNER = st.one_of(
    st.builds(udp, ENDPOINTS, PORTS, TARGETS, PORTS),
    st.builds(tcp, ENDPOINTS, PORTS, TARGETS, PORTS, FLAGS),
    st.builds(lambda a, b, n, r: echo(a, b, n, reply=r), ENDPOINTS, TARGETS, PORTS, st.booleans()),
    st.builds(
        lambda a, b, at: ipv4(a, b, 17, bytes(16), offset=at, more=at == 0),
        ENDPOINTS,
        TARGETS,
        st.sampled_from([0, 16, 32]),
    ),
    st.builds(lambda a, b, p: icmp_error(a, b, udp(b, p, a, p)), ENDPOINTS, ENDPOINTS, PORTS),
)


def from_outside(vni):
    publics = st.sampled_from([PUBLIC[vni], FLOATING[vni]])
    fars = st.sampled_from(["8.8.8.8", "9.9.9.9"])
    return st.one_of(
        st.builds(udp, fars, PORTS, publics, PORTS),
        st.builds(tcp, fars, PORTS, publics, PORTS, FLAGS),
        st.builds(lambda a, b, n: echo(a, b, n, reply=True), fars, publics, PORTS),
    )


def traffic(vni):
    inner = st.builds(lambda packet: (vni, Sent(packet, vni)), INNER)
    outer = st.builds(lambda packet: (vni, Sent(packet, 0, EXTERNAL_PORT)), from_outside(vni))
    return st.one_of(inner, inner, outer)


def seen(fate):
    """Return the part of a packet's fate that a tenant can observe, without row numbers."""
    return (fate.packet, fate.hop) if isinstance(fate, Passed) else fate


@given(st.lists(st.one_of(traffic(5), traffic(6)), max_size=60))
def test_each_tenant_observes_the_same_as_alone(events):
    together = StateBench(make_tables(VPCS), LIMITS)
    fates = [seen(together.one(*sent)) for _, sent in events]
    for vni in (5, 6):
        alone = StateBench(make_tables(VPCS), LIMITS)
        expected = [seen(alone.one(*sent)) for tenant, sent in events if tenant == vni]
        assert [fate for fate, (tenant, _) in zip(fates, events, strict=True) if tenant == vni] == expected


@given(st.lists(st.one_of(traffic(5), traffic(6)), max_size=60))
def test_both_rows_of_a_connection_belong_to_one_tenant(events):
    bench = StateBench(make_tables(VPCS), LIMITS)
    hops = bench.tables.next_hops
    for tenant, sent in events:
        fate = bench.one(*sent)
        if isinstance(fate, Passed) and hops[fate.hop]["vni"] != 0:
            assert hops[fate.hop]["vni"] == tenant
            assert not read(fate.packet)[2].startswith(("8.", "9."))
    rows = bench.state.connections
    rows = rows[rows["key"] != 0]
    for row in rows:
        ends = {int(row["key"]) & 0xFFFFFF, int(row["out_vni"])}
        assert ends <= {0, 5} or ends <= {0, 6}
    assert np.unique(rows[["source_hi", "source_lo", "target_hi", "target_lo", "key"]]).size == rows.size
