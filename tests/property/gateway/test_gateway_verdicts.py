"""Verdicts derived from compiled tables against what the gateway's kernels do with the same packet."""

from ipaddress import ip_address

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from heddle.dataplane.config.local import Limits, Side
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.dataplane.verify.installed import installed
from heddle.dataplane.verify.reach import FromCustomer, FromEndpoint, FromInternet, Judge, Source
from tests.fakes.gateway.state_bench import Passed, StateBench
from tests.oracles.inet_checksum import echo, tcp, udp
from tests.property.gateway.networks import CUSTOMERS, PROVIDERS, PUBLIC, SUBNETS, gateways, networks
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

LIMITS = Limits(connections=16, mappings=16, fragments=16, connections_per_endpoint=16)
AT_THE_ENTRIES = {Drop.UNKNOWN_VNI, Drop.UNKNOWN_VTEP, Drop.UNKNOWN_VLAN}
PLACES = st.builds(
    lambda prefix, place: prefix[place], st.sampled_from(SUBNETS + CUSTOMERS[:2] + PROVIDERS), st.integers(1, 6)
)
TARGETS = st.one_of(PLACES, st.sampled_from([*PUBLIC, ip_address("8.8.8.8"), ip_address("203.0.113.77")]))


@st.composite
def sources(draw, network):
    """Usually an existing endpoint."""
    choices: list[st.SearchStrategy[Source]] = [
        st.builds(FromInternet, address=st.sampled_from([ip_address("8.8.8.8"), ip_address("203.0.113.77")]))
    ]
    for vpc in network.vpcs:
        choices += [st.just(FromEndpoint(vni=vpc.vni, vtep=end.vtep, address=end.ip)) for end in vpc.endpoints]
        for connect in vpc.direct_connects:
            inside = connect.customer[min(5, connect.customer.num_addresses - 1)]
            choices.append(st.just(FromCustomer(vlan=connect.vlan, address=inside)))
    return draw(st.one_of(choices))


def packet(source, target, protocol, port):
    if protocol == 1:
        return echo(str(source), str(target), 7)
    make = tcp if protocol == 6 else udp
    return make(str(source), 40_000, str(target), port)


def port_of(local, side):
    return next((port for port, interface in enumerate(local.interfaces) if interface.side is side), None)


def sent_by_kernels(tables, local, network, source, target, protocol, port):
    bench = StateBench(tables, LIMITS)
    wire = packet(source.address, target, protocol, port)
    if isinstance(source, FromInternet):
        return bench.one(wire, 0, port_of(local, Side.EXTERNAL))
    if isinstance(source, FromEndpoint):
        return bench.one(wire, source.vni, port_of(local, Side.UNDERLAY))
    vnis = {connect.vlan: vpc.vni for vpc in network.vpcs for connect in vpc.direct_connects}
    return bench.one(wire, vnis[source.vlan], port_of(local, Side.CUSTOMER))


@settings(max_examples=examples(100), deadline=None, phases=[Phase.generate])  # to make one smaller takes minutes
@given(st.data(), gateways(), networks())
def test_a_verdict_equals_the_kernels_decision(data, site, network):
    local, neighbours = site
    tables = compile_tables(local, network, neighbours=neighbours, generation=1)
    judge = Judge(installed(tables))
    for _ in range(12):
        source, target = data.draw(sources(network)), data.draw(TARGETS)
        protocol, port = data.draw(st.sampled_from([1, 6, 17])), data.draw(st.sampled_from([22, 80, 81, 4791]))
        if source.address.version != target.version or source.address == target:
            continue
        verdict = judge.verdict(source, target, protocol, 0 if protocol == 1 else port)
        side = {FromInternet: Side.EXTERNAL, FromCustomer: Side.CUSTOMER}.get(type(source), Side.UNDERLAY)
        if verdict.drop in AT_THE_ENTRIES or port_of(local, side) is None:
            continue
        fate = sent_by_kernels(tables, local, network, source, target, protocol, port)
        assert (None if isinstance(fate, Passed) else fate) == verdict.drop, (source, target, protocol, port)
        if isinstance(fate, Passed) and verdict.where == "vpc":
            assert tables.next_hops[fate.hop]["vni"] == verdict.vni
