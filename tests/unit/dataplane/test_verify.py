"""Isolation computed from tables: valid tables have no findings, and every planted fault is found with its cause."""

from dataclasses import replace
from ipaddress import IPv4Address, ip_address, ip_network

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.config.local import Interface, LocalConfig, ProviderNetwork, Side
from heddle.dataplane.config.network import (
    BorderRule,
    DirectConnect,
    Direction,
    Endpoint,
    FloatingIp,
    NetworkConfig,
    Peering,
    Protocol,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.dataplane.tables.compiler.index import indexed
from heddle.dataplane.verify.installed import installed
from heddle.dataplane.verify.intended import intended
from heddle.dataplane.verify.reach import FromCustomer, FromEndpoint, FromInternet, FromProvider, Judge
from heddle.dataplane.verify.report import verify
from heddle.dataplane.verify.search import entries
from heddle.foundation.network import Network
from tests.property.gateway.networks import CUSTOMERS, PROVIDERS, PUBLIC, SUBNETS, VTEPS, gateways, networks
from tests.support.examples import examples

H1, H2 = IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2")
LOCAL = LocalConfig(
    gateway_id="gw",
    interfaces=(
        Interface(name="u", side=Side.UNDERLAY, mac=0x0200_0000_0001, address=IPv4Address("192.0.2.100")),
        Interface(name="x", side=Side.EXTERNAL, mac=0x0200_0000_0002, address=IPv4Address("203.0.113.1")),
        Interface(name="c", side=Side.CUSTOMER, mac=0x0200_0000_0003),
        Interface(name="p", side=Side.PROVIDER, mac=0x0200_0000_0004, address=IPv4Address("10.9.0.1")),
    ),
    provider_networks=(
        ProviderNetwork(realm=Network.STORAGE, prefixes=(ip_network("10.9.0.0/16"),)),
        ProviderNetwork(realm=Network.MANAGEMENT, prefixes=(ip_network("10.10.0.0/16"),)),
    ),
)


def vpc(name, vni, third, *vteps, **fields):
    prefix = ip_network(f"10.0.{third}.0/24")
    ends = tuple(Endpoint(ip=prefix[10 + i], mac=0x0600_0000_0000 | i, vtep=vtep) for i, vtep in enumerate(vteps))
    return Vpc(id=name, vni=vni, subnets=(Subnet(prefix=prefix, gateway=prefix[1]),), endpoints=ends, **fields)


def rule(allow, remote, protocol=Protocol.ANY, low=0, high=65_535, direction=Direction.IN):
    return SecurityRule(
        allow=allow, direction=direction, protocol=protocol, remote=ip_network(remote), port_min=low, port_max=high
    )


NETWORK = NetworkConfig(
    vpcs=(
        vpc("blue", 1, 0, H1, H2, nat=PUBLIC[0]),
        vpc("red", 2, 0, H1, rules=(rule(False, "10.0.0.0/24", Protocol.TCP, 22, 22),)),  # blue's addresses
        vpc(
            "green",
            3,
            1,
            H2,
            rules=(
                rule(False, "10.0.0.10/32", Protocol.TCP, 80, 80),
                rule(True, "10.0.0.0/24", Protocol.TCP, 80, 80),
                rule(False, "10.9.0.99/32", direction=Direction.OUT),
            ),
            floating_ips=(FloatingIp(public=PUBLIC[1], endpoint=IPv4Address("10.0.1.10")),),
            direct_connects=(
                DirectConnect(vlan=7, customer=ip_network("172.30.0.0/16"), next_hop=ip_address("192.168.0.1")),
            ),
        ),
    ),
    peerings=frozenset({Peering(a="blue", b="green")}),
    border=(BorderRule(allow=True, vpc="green", realm=Network.STORAGE, remote=ip_network("10.9.0.0/24"), port_max=99),),
)


def compiled(network=NETWORK, local=LOCAL):
    return compile_tables(local, network, neighbours={}, generation=1)


def without(table, *words):
    """A table without one of its keys."""
    keys, rows = entries(table)
    keep = ~(keys == np.array(words)).all(axis=1)
    assert not keep.all()
    return indexed(keys[keep], rows[keep])


def with_key(table, words, row):
    keys, rows = entries(table)
    return indexed(np.concatenate([np.array([words]), keys]), np.concatenate([[row], rows]))


@settings(max_examples=examples(60), deadline=None)
@given(gateways(), networks())
def test_compiled_tables_open_exactly_the_intended_paths(site, network):
    local, neighbours = site
    report = verify(compile_tables(local, network, neighbours=neighbours, generation=1), local, network)
    assert [str(finding) for finding in report.findings] == []


def test_reachability_between_the_four_networks_follows_the_border_rules():
    networks = verify(compiled(), LOCAL, NETWORK).networks
    assert networks["business"]["storage"] > 0
    assert networks["business"]["business"] > 0
    assert networks["business"]["management"] == networks["business"]["compute"] == 0
    assert not any(any(row.values()) for name, row in networks.items() if name != "business")


def hop_to(tables, kind, **fields):
    """The row of a next hop of a kind."""
    hops = tables.next_hops
    fits = hops["kind"] == kind
    for name, value in fields.items():
        fits &= hops[name] == value
    return int(np.flatnonzero(fits)[0])


def _route_to_a_stranger(tables):
    hop = hop_to(tables, schema.PEER, vni=3)
    tables.next_hops[hop]["vni"] = 2
    return tables


def _extra_route(tables):
    wide = 0xFFFF_0000_0000 | int(IPv4Address("10.10.0.0"))
    first = (2 << 8) | 96 + 16
    tables.vpcs["lengths_v4"] |= 1 << 16
    hop = hop_to(tables, schema.PROVIDER, realm=list(Network).index(Network.STORAGE))
    kept = without(tables.routes, first, 0, wide)
    return tables._replace(routes=with_key(kept, (first, 0, wide), hop))


def _missing_vtep_check(tables):
    return tables._replace(vteps=with_key(tables.vteps, (2, int(H2)), 0))


def _endpoint_at_another_vtep(tables):
    tables.endpoint_vteps[0] = int(H2)
    return tables


def _template_of_another_vni(tables):
    row = int(np.flatnonzero(tables.next_hops["vni"] == 2)[0])
    tables.templates[int(tables.next_hops[row]["template"]) + 48] = 1
    return tables


def _next_hop_of_another_vpc(tables):
    keys, rows = entries(tables.endpoints)
    rows = np.where(keys[:, 0] == 2, rows[keys[:, 0] == 1][0], rows)
    return tables._replace(endpoints=indexed(keys, rows))


def _deny_rule_lost(tables):
    row = int(tables.vpcs[2]["rules_in"])
    tables.rules[row]["protocol"] = 200
    return tables


def _allow_rule_lost(tables):
    tables.vpcs["rules_in_count"][2] = 1
    return tables


def _rule_for_more_ports(tables):
    tables.rules[int(tables.vpcs[2]["rules_in"]) + 1]["port_max"] = 90
    return tables


def _outward_rule_lost(tables):
    tables.vpcs["rules_out_count"][2] = 0
    return tables


def _border_for_all(tables):
    tables.vpcs["border"][0] = tables.vpcs["border"][2]
    tables.vpcs["border_count"][0] = tables.vpcs["border_count"][2]
    return tables


def _border_too_wide(tables):
    tables.rules[int(tables.vpcs[2]["border"])]["mask_lo"] &= -1 << 16
    return tables


def _floating_to_another(tables):
    tables.floating[0, schema.FLOATING_VNI] = 1
    return tables


def _customer_in_another_vpc(tables):
    tables.customers[0, schema.CUSTOMER_VNI] = 1
    return tables


def _anothers_public_address(tables):
    tables.vpcs["nat_source"][0] = int(PUBLIC[5])
    return tables


FAULTS = [
    (_route_to_a_stranger, "leak", ("vpc blue", "vpc red")),
    (_extra_route, "leak", ("vpc red", "route 10.10.0.0/16")),
    (_missing_vtep_check, "leak", ("VTEP 192.0.2.2", "vpc red")),
    (_endpoint_at_another_vtep, "leak", ("VTEP 192.0.2.2 as 10.0.0.10", "vpc blue")),
    (_template_of_another_vni, "leak", ("vpc red", "vpc blue, VTEP 192.0.2.1")),
    (_next_hop_of_another_vpc, "leak", ("vpc red", "vpc blue")),
    (_deny_rule_lost, "leak", ("vpc blue, 10.0.0.10", "vpc green", "tcp 80", "inward rules of vpc green")),
    (_allow_rule_lost, "missing", ("vpc blue", "vpc green", "tcp 80", "inward rules of vpc green")),
    (_rule_for_more_ports, "leak", ("vpc blue", "vpc green", "tcp 81-90")),
    (_outward_rule_lost, "leak", ("vpc green", "storage", "from 10.9.0.99 on")),
    (_border_for_all, "leak", ("vpc blue", "storage", "border rules of vpc blue")),
    (_border_too_wide, "leak", ("vpc green", "storage", "from 10.9.1.0 on")),
    (_floating_to_another, "leak", ("the internet by 203.0.113.11", "vpc blue")),
    (_customer_in_another_vpc, "leak", ("the customer on VLAN 7", "vpc blue")),
    (_anothers_public_address, "leak", ("vpc blue", "the internet", "another public address")),
]


@pytest.mark.parametrize(("plant", "kind", "words"), FAULTS, ids=[fault[0].__name__[1:] for fault in FAULTS])
def test_a_planted_fault_is_found_with_its_cause(plant, kind, words):
    tables = plant(compiled())
    findings = [str(f) for f in verify(tables, LOCAL, NETWORK).findings if f.kind == kind]
    assert any(all(word in finding for word in words) for finding in findings), findings


def test_only_the_vteps_of_back_ends_reply_from_a_virtual_ip():
    vip, end = (IPv4Address(f"10.0.0.{last}") for last in (10, 11))
    served = (VirtualIp(vpc="blue", ip=vip, vteps=(H1,), back_ends=(end,)),)
    tables = compile_tables(LOCAL, NETWORK, neighbours={}, generation=1, virtual_ips=served)
    assert verify(tables, LOCAL, NETWORK, (), served).is_sound
    (leak,) = verify(tables, LOCAL, NETWORK).findings
    assert str(leak) == "leak: VTEP 192.0.2.2 as 10.0.0.10 to vpc blue: replies; no back end of the virtual IP is there"
    (missing,) = verify(compiled(), LOCAL, NETWORK, (), served).findings
    assert missing.kind == "missing"


def test_a_key_that_no_lookup_finds_is_ignored():
    tables = compiled()
    table = np.roll(tables.endpoints, 3, axis=0)
    report = verify(tables._replace(endpoints=table), LOCAL, NETWORK)
    assert not report.is_sound


def test_a_rule_whose_mask_is_no_prefix_is_refused():
    tables = compiled()
    tables.rules[int(tables.vpcs[2]["rules_in"])]["mask_lo"] ^= 1 << 8
    with pytest.raises(ValueError, match="not a prefix's"):
        verify(tables, LOCAL, NETWORK)


def test_a_missing_update_is_found_as_missing_paths_and_leaks():
    fewer = replace(NETWORK, vpcs=NETWORK.vpcs[:1], peerings=frozenset(), border=())
    findings = verify(compiled(fewer), LOCAL, NETWORK).findings
    assert "missing" in {f.kind for f in findings}
    leaks = [str(f) for f in findings if f.kind == "leak"]  # traffic to the peer now follows the default route
    assert leaks
    assert all("vpc blue to the internet" in leak for leak in leaks)
    assert "leak" in {f.kind for f in verify(compiled(), LOCAL, fewer).findings}


CASES = [
    (FromEndpoint(vni=1, vtep=H1, address=ip_address("10.0.0.10")), "10.0.0.11", 6, 80, None),
    (FromEndpoint(vni=1, vtep=H2, address=ip_address("10.0.0.10")), "10.0.0.11", 6, 80, Drop.SPOOFED_SOURCE),
    (FromEndpoint(vni=9, vtep=H1, address=ip_address("10.0.0.10")), "10.0.0.11", 6, 80, Drop.UNKNOWN_VNI),
    (FromEndpoint(vni=2, vtep=H2, address=ip_address("10.0.0.10")), "10.0.0.11", 6, 80, Drop.UNKNOWN_VTEP),
    (FromEndpoint(vni=1, vtep=H2, address=ip_address("10.0.0.11")), "10.0.1.10", 6, 80, None),
    (FromEndpoint(vni=1, vtep=H1, address=ip_address("10.0.0.10")), "10.0.1.10", 6, 80, Drop.DENIED_IN),
    (FromEndpoint(vni=1, vtep=H1, address=ip_address("10.0.0.10")), "10.0.1.77", 6, 80, Drop.NO_ROUTE),
    (FromEndpoint(vni=1, vtep=H1, address=ip_address("10.0.0.10")), "10.0.0.77", 6, 80, Drop.DISCARD_ROUTE),
    (FromEndpoint(vni=1, vtep=H1, address=ip_address("10.0.0.10")), "8.8.8.8", 17, 53, None),
    (FromEndpoint(vni=1, vtep=H1, address=ip_address("10.0.0.10")), "8.8.8.8", 17, 4791, Drop.ROCE_NOT_TRANSLATED),
    (FromEndpoint(vni=2, vtep=H1, address=ip_address("10.0.0.10")), "8.8.8.8", 17, 53, Drop.NO_ROUTE),
    (FromEndpoint(vni=3, vtep=H2, address=ip_address("10.0.1.10")), "10.9.0.5", 6, 80, None),
    (FromEndpoint(vni=3, vtep=H2, address=ip_address("10.0.1.10")), "10.9.0.5", 6, 100, Drop.DENIED_BORDER),
    (FromEndpoint(vni=3, vtep=H2, address=ip_address("10.0.1.10")), "10.9.0.99", 6, 80, Drop.DENIED_OUT),
    (FromEndpoint(vni=3, vtep=H2, address=ip_address("10.0.1.10")), "10.10.0.5", 6, 80, Drop.DENIED_BORDER),
    (FromEndpoint(vni=3, vtep=H2, address=ip_address("10.0.1.10")), "172.30.5.5", 6, 80, None),
    (FromCustomer(vlan=7, address=ip_address("172.30.5.5")), "10.0.1.10", 6, 80, Drop.DENIED_IN),
    (FromCustomer(vlan=7, address=ip_address("172.31.5.5")), "10.0.1.10", 6, 80, Drop.SPOOFED_SOURCE),
    (FromCustomer(vlan=8, address=ip_address("172.30.5.5")), "10.0.1.10", 6, 80, Drop.UNKNOWN_VLAN),
    (FromInternet(address=ip_address("8.8.8.8")), "203.0.113.11", 6, 80, Drop.DENIED_IN),
    (FromInternet(address=ip_address("8.8.8.8")), "203.0.113.10", 6, 80, Drop.NO_MAPPING),
    (FromInternet(address=ip_address("8.8.8.8")), "203.0.113.11", 17, 4791, Drop.ROCE_NOT_TRANSLATED),
    (FromInternet(address=ip_address("10.9.0.5")), "203.0.113.11", 6, 80, Drop.MARTIAN),
    (FromInternet(address=ip_address("203.0.113.10")), "203.0.113.11", 6, 80, Drop.SPOOFED_SOURCE),
    (FromInternet(address=ip_address("2001:db8::1")), "203.0.113.11", 6, 80, Drop.NO_MAPPING),
    (FromEndpoint(vni=1, vtep=H1, address=ip_address("10.0.0.10")), "203.0.113.11", 6, 80, Drop.DENIED_IN),
    (FromCustomer(vlan=7, address=ip_address("172.30.5.5")), "10.0.1.77", 6, 80, Drop.DISCARD_ROUTE),
    (FromProvider(address=ip_address("10.9.0.5")), "10.0.1.10", 6, 80, Drop.DENIED_BORDER),
]


@pytest.mark.parametrize(("source", "target", "protocol", "port", "drop"), CASES)
def test_one_packet_is_judged_by_the_tables(source, target, protocol, port, drop):
    assert Judge(installed(compiled())).verdict(source, ip_address(target), protocol, port).drop == drop


def _mutated(tables, draw):
    """Change one word somewhere."""
    name = draw(
        st.sampled_from(
            ["vpcs", "next_hops", "rules", "endpoint_vteps", "vteps", "routes", "endpoints", "floating", "customers"]
        )
    )
    array = getattr(tables, name)
    if not array.size:
        return
    flat = array.view(np.int64).reshape(-1)
    at = draw(st.integers(0, flat.size - 1))
    flat[at] = draw(st.one_of(st.integers(-1, 8), st.sampled_from(flat.tolist())))


SOURCES = st.one_of(
    st.builds(
        FromEndpoint,
        vni=st.integers(1, 16),
        vtep=st.sampled_from(VTEPS),
        address=st.builds(lambda prefix, place: prefix[place], st.sampled_from(SUBNETS), st.integers(1, 6)),
    ),
    st.builds(FromCustomer, vlan=st.sampled_from([1, 2, 11, 12, 21]), address=st.just(CUSTOMERS[0][5])),
    st.builds(FromInternet, address=st.sampled_from([ip_address("8.8.8.8"), ip_address("10.0.0.1")])),
)
TARGETS = st.one_of(
    st.builds(
        lambda prefix, place: prefix[place], st.sampled_from(SUBNETS + CUSTOMERS[:2] + PROVIDERS), st.integers(0, 6)
    ),
    st.sampled_from([*PUBLIC, ip_address("8.8.8.8")]),
)
QUESTIONS = st.lists(
    st.tuples(SOURCES, TARGETS, st.sampled_from([1, 6, 17, 58]), st.sampled_from([0, 22, 80, 81])), max_size=40
)


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), gateways(), networks(), QUESTIONS)
def test_a_packet_whose_verdict_changed_has_a_finding(data, site, network, packets):
    local, neighbours = site
    tables = compile_tables(local, network, neighbours=neighbours, generation=1)
    _mutated(tables, data.draw)
    try:
        have = Judge(installed(tables))
        report = verify(tables, local, network)
    except (ValueError, IndexError, KeyError):
        return  # rows outside of the tables: no lookup is possible
    want = Judge(intended(local, network))
    kinds = {finding.kind for finding in report.findings}
    for packet in packets:
        now, meant = have.verdict(*packet), want.verdict(*packet)
        if now.where != "gateway" and meant.where != "gateway" and now.passes != meant.passes:
            assert ("leak" if now.passes else "missing") in kinds, (packet, now, meant)
