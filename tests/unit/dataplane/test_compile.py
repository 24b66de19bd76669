"""Every lookup of a packet in compiled tables gives what the configuration defines."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

from heddle.dataplane.config.local import Interface, LocalConfig, ProviderNetwork, Side
from heddle.dataplane.config.network import Direction, NetworkConfig, Protocol
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.compiler.compile import compile_tables, link_of
from heddle.dataplane.tables.compiler.index import indexed
from heddle.foundation.network import Network
from tests.oracles.table_lookup import find, find_endpoint, find_route, signed, wide
from tests.property.gateway.networks import CUSTOMERS, PROVIDERS, PUBLIC, SUBNETS, gateways, networks, prefixes_of
from tests.support.examples import examples

REALMS = list(Network)
SOME = settings(max_examples=examples(50), deadline=None)
ADDRESSES = st.one_of(
    st.sampled_from(
        [ip_address(text) for text in ("203.0.113.77", "10.9.0.9", "10.9.0.254", "8.8.8.8", "fd00:9::1", "fe80::1")]
    ),
    st.builds(
        lambda prefix, place: prefix[place], st.sampled_from(SUBNETS + CUSTOMERS[:2] + PROVIDERS), st.integers(0, 7)
    ),
)


def compiled(site, network, **more):
    local, neighbours = site
    return compile_tables(local, network, neighbours=neighbours, generation=7, **more)


def port_of(local, side):
    return next((port for port, interface in enumerate(local.interfaces) if interface.side is side), None)


def expected_hop(site, network, vpc, address):
    """Return the kind and fields of the hop to a destination that is not an endpoint, by the configuration."""
    local, neighbours = site
    by_id = {each.id: each for each in network.vpcs}
    peers = [by_id[p.b if p.a == vpc.id else p.a] for p in sorted(network.peerings) if vpc.id in (p.a, p.b)]
    mac = 0x0248_0000_0000 + vpc.vni
    if any(subnet.gateway == address for subnet in vpc.subnets):
        return "local", vpc.vni
    if any(s.prefix.version == 6 for s in vpc.subnets) and address == IPv6Address(
        f"fe80::48:{0}ff:fe{mac >> 16 & 0xFF:02x}:{mac & 0xFFFF:x}"
    ):
        return "local", vpc.vni
    customers = vpc.direct_connects if port_of(local, Side.CUSTOMER) is not None else ()
    mine = prefixes_of(vpc) + [subnet.prefix for peer in peers for subnet in peer.subnets]
    choices = [  # a prefix and a verdict; of equal prefixes the first counts
        *[(subnet.prefix, ("discard",)) for subnet in vpc.subnets],
        *[(c.customer, ("customer", c.vlan, c.next_hop)) for c in customers],
        *[(subnet.prefix, ("peer", peer.vni)) for peer in peers for subnet in peer.subnets],
        *_provided(local, neighbours, mine, address),
    ]
    port = port_of(local, Side.EXTERNAL)
    if port is not None and (vpc.nat or vpc.floating_ips):
        choices.append((ip_network("0.0.0.0/0"), ("external", _next_hop(local, neighbours, port, address))))
    fitting = [choice for choice in choices if address in choice[0]]
    return max(fitting, key=lambda choice: choice[0].prefixlen)[1] if fitting else None


def _provided(local, neighbours, mine, address):
    port = port_of(local, Side.PROVIDER)
    for provided in local.provider_networks:
        for prefix in provided.prefixes:
            if not any(one.version == prefix.version and prefix.subnet_of(one) for one in mine):
                hop = _next_hop(local, neighbours, port, address)
                yield prefix, ("provider", REALMS.index(provided.realm), hop)


def _next_hop(local, neighbours, port, address):
    near = (port, address) in neighbours and address in local.interfaces[port].network
    return address if near else local.interfaces[port].router


def described(tables, row):
    """Return a hop in the form of `expected_hop`."""
    if row < 0:
        return None
    hop = tables.next_hops[row]
    high, low = int(hop["address_hi"]), int(hop["address"])
    address = IPv6Address((high & (1 << 64) - 1) << 64 | low & (1 << 64) - 1) if high else IPv4Address(low)
    next_hop = None if not high and not low else address
    return {
        schema.DISCARD: lambda: ("discard",),
        schema.LOCAL: lambda: ("local", int(hop["vni"])),
        schema.PEER: lambda: ("peer", int(hop["vni"])),
        schema.CUSTOMER: lambda: ("customer", int(hop["vlan"]), address),
        schema.PROVIDER: lambda: ("provider", int(hop["realm"]), next_hop),
        schema.EXTERNAL: lambda: ("external", next_hop),
    }[int(hop["kind"])]()


@SOME
@given(gateways(), networks(), st.data())
def test_a_destination_is_routed_as_configured(site, network, data):
    tables = compiled(site, network)
    for vpc in network.vpcs:
        gateway_addresses = [subnet.gateway for subnet in vpc.subnets]
        for address in data.draw(st.lists(ADDRESSES, max_size=12)) + gateway_addresses:
            assert described(tables, find_route(tables, vpc.vni, address)) == expected_hop(site, network, vpc, address)


@SOME
@given(gateways(), networks())
def test_an_endpoint_is_found_in_its_own_vpc_and_in_no_other(site, network):
    tables = compiled(site, network)
    everyone = {endpoint.ip for vpc in network.vpcs for endpoint in vpc.endpoints}
    for vpc in network.vpcs:
        own = {endpoint.ip: endpoint for endpoint in vpc.endpoints}
        for address in everyone:
            row = find_endpoint(tables, vpc.vni, address)
            assert (row >= 0) == (address in own)
            if row >= 0:
                hop = tables.next_hops[row]
                assert (hop["kind"], hop["target_mac"], hop["vni"]) == (schema.TUNNEL, own[address].mac, vpc.vni)
                assert hop["source_mac"] == tables.vpcs[hop["vpc"]]["gateway_mac"] == 0x0248_0000_0000 + vpc.vni
                assert tables.endpoint_vteps[row] == int(own[address].vtep)


@SOME
@given(gateways(), networks())
def test_an_outer_header_has_the_endpoints_vtep_and_the_checksum_of_length_0(site, network):
    local, neighbours = site
    tables = compiled(site, network)
    underlay = port_of(local, Side.UNDERLAY)
    for hop, vtep in zip(tables.next_hops, tables.endpoint_vteps.tolist(), strict=True):
        if hop["kind"] != schema.TUNNEL:
            assert (vtep, hop["template_bytes"]) == (0, 0)
            continue
        start = int(hop["template"])
        header = Ether(bytes(tables.templates[start : start + int(hop["template_bytes"])]))
        on_link = IPv4Address(vtep) in local.interfaces[underlay].network
        next_hop = IPv4Address(vtep) if on_link else local.interfaces[underlay].router or IPv4Address(vtep)
        mac = neighbours.get((underlay, next_hop), 0)
        assert (hop["port"], hop["address"], hop["resolved"]) == (underlay, int(next_hop), mac != 0)
        assert int(header.dst.replace(":", ""), 16) == mac
        assert int(header.src.replace(":", ""), 16) == local.interfaces[underlay].mac
        assert (header[IP].src, int(IPv4Address(header[IP].dst))) == ("192.0.2.100", vtep)
        assert (header[IP].flags, header[IP].len, header[UDP].dport, header[UDP].chksum) == ("DF", 0, 4789, 0)
        vxlan = VXLAN(bytes(tables.templates[start + 42 : start + 50]))
        assert (vxlan.vni, vxlan.flags) == (hop["vni"], "Instance")
        again = header[IP].copy()
        del again.chksum
        assert IP(bytes(again)).chksum == header[IP].chksum
        assert hop["mtu_bytes"] == 8950


@SOME
@given(gateways(), networks(), st.booleans())
def test_vnis_vteps_and_public_addresses_are_found(site, network, with_partner):
    partner = IPv4Address("192.0.2.101")
    tables = compiled(site, network, partners=[partner] if with_partner else [])
    known = {vpc.vni: vpc for vpc in network.vpcs}
    vteps = {endpoint.vtep for vpc in network.vpcs for endpoint in vpc.endpoints} | {partner}
    for vni in range(20):
        assert (find(tables.vnis, vni) >= 0) == (vni in known)
        for vtep in vteps:
            meant = vni in known and (
                any(endpoint.vtep == vtep for endpoint in known[vni].endpoints) or (with_partner and vtep == partner)
            )
            assert find(tables.vteps, vni, int(vtep)) == (0 if meant else -1)
    for public in PUBLIC:
        owners = [(v, f) for v in network.vpcs for f in v.floating_ips if f.public == public]
        row = find(tables.floating_in, int(public))
        assert (row >= 0) == bool(owners)
        for vpc, floating in owners:
            assert tables.floating[row, :4].tolist() == [
                int(public),
                int(floating.endpoint),
                vpc.vni,
                find(tables.vnis, vpc.vni),
            ]
            assert find(tables.floating_out, vpc.vni, int(floating.endpoint)) == row
        sharing = [row for row, vpc in enumerate(network.vpcs) if vpc.nat == public]
        assert find(tables.nat_in, int(public)) in (sharing or [-1])
    for row, vpc in enumerate(network.vpcs):
        nat = (int(vpc.nat), 1024, 33_000) if vpc.nat else (0, 0, 0)
        assert tables.vpcs[["nat_source", "nat_first", "nat_last"]][row].item() == nat
        is_shared = vpc.nat is not None and [other.nat for other in network.vpcs].count(vpc.nat) > 1
        assert tables.vpcs["nat_shared"][row] == is_shared
        assert REALMS[tables.vpcs["realm"][row]] is vpc.realm


@SOME
@given(gateways(), networks())
def test_a_customers_vlan_leads_to_its_vpc_and_prefix(site, network):
    local, _ = site
    tables = compiled(site, network)
    port = port_of(local, Side.CUSTOMER)
    connects = {connect.vlan: (vpc, connect) for vpc in network.vpcs for connect in vpc.direct_connects}
    for vlan in range(50):
        for each in range(len(local.interfaces)):
            row = find(tables.vlans, each << 12 | vlan)
            assert (row >= 0) == (vlan in connects and each == port)
            if row >= 0:
                vpc, connect = connects[vlan]
                vni, vpc_row, *words = tables.customers[row].tolist()
                assert (vni, vpc_row) == (vpc.vni, find(tables.vnis, vpc.vni))
                length = connect.customer.prefixlen + (96 if connect.customer.version == 4 else 0)
                network_address = wide(connect.customer.network_address)
                mask = ((1 << length) - 1) << (128 - length)
                assert words == [signed(word) for word in (network_address >> 64, network_address, mask >> 64, mask)]


def decide(rows, address, protocol, port):
    """Return the verdict of the first matching row, None without a match."""
    for row in rows:
        same = row["remote_hi"] == signed(wide(address) >> 64) & row["mask_hi"] and row["remote_lo"] == (
            signed(wide(address)) & row["mask_lo"]
        )
        fits = row["family"] == address.version and row["protocol"] in (0, protocol) and same
        if fits and row["port_min"] <= port <= row["port_max"]:
            return bool(row["allow"])
    return None


def decided(rules, address, protocol, port):
    for rule in rules:
        ports = rule.protocol is Protocol.ICMP or rule.port_min <= port <= rule.port_max
        if address in rule.remote and rule.protocol in (Protocol.ANY, protocol) and ports:
            return rule.allow
    return None


PACKETS = st.tuples(ADDRESSES, st.sampled_from([1, 6, 17, 47]), st.sampled_from([0, 22, 80, 81, 4791, 65_535]))


@SOME
@given(gateways(), networks(), st.lists(PACKETS, max_size=10))
def test_rules_decide_as_configured(site, network, packets):
    local, _ = site
    tables = compiled(site, network)
    for row, vpc in zip(tables.vpcs, network.vpcs, strict=True):
        for address, protocol, port in packets:
            for name, direction in (("rules_in", Direction.IN), ("rules_out", Direction.OUT)):
                rows = tables.rules[row[name] : row[name] + row[f"{name}_count"]]
                rules = [rule for rule in vpc.rules if rule.direction is direction]
                assert decide(rows, address, protocol, port) == decided(rules, address, protocol, port)
            rows = tables.rules[row["border"] : row["border"] + row["border_count"]]
            realms = {p.realm for p in local.provider_networks if any(address in prefix for prefix in p.prefixes)}
            rules = [rule for rule in network.border if rule.vpc in ("*", vpc.id) and rule.realm in realms]
            assert decide(rows, address, protocol, port) == decided(rules, address, protocol, port)


@SOME
@given(gateways(), networks())
def test_no_hash_table_is_more_than_half_full_and_all_are_a_power_of_two(site, network):
    tables = compiled(site, network)
    for name in ("vnis", "vteps", "endpoints", "routes", "floating_in", "floating_out", "nat_in", "vlans"):
        table = getattr(tables, name)
        assert len(table) & (len(table) - 1) == 0
        assert np.count_nonzero(table[:, -1] != schema.EMPTY) * 2 <= len(table)


@SOME
@given(st.integers(1, 3), st.data())
def test_every_key_is_found_and_nothing_else(words, data):
    word = st.one_of(st.integers(0, 3), st.integers(-(1 << 63), (1 << 63) - 1))
    keys = data.draw(st.lists(st.tuples(*[word] * words), max_size=40))
    table = indexed(np.array(keys, dtype=np.int64).reshape(-1, words), np.arange(len(keys)))
    for key in keys + data.draw(st.lists(st.tuples(*[word] * words), max_size=5)):
        assert find(table, *key) == (keys.index(key) if key in keys else -1)


@given(gateways())
@settings(max_examples=examples(20), deadline=None)
def test_a_gateway_knows_its_own_ports_and_limits(site):
    local, _ = site
    for active in (False, True):
        tables = compiled(site, NetworkConfig(), active=active)
        assert tables.generation.tolist() == [7]
        own = tables.own
        assert IPv4Address(int(own[schema.OWN_VTEP])) == IPv4Address("192.0.2.100")
        assert bool(own[schema.OWN_ACTIVE]) is active
        assert (own[schema.OWN_TCP_TIMEOUT_S], own[schema.OWN_PER_ENDPOINT]) == (7440, 1 << 16)
        assert (own[schema.OWN_NAT_FIRST], own[schema.OWN_NAT_LAST]) == (1024, 33_000)
    for port, interface in enumerate(local.interfaces):
        side, mac, address, mtu_bytes = tables.ports[port].tolist()
        assert (schema.SIDES[side], mac, mtu_bytes) == (interface.side.value, interface.mac, interface.mtu_bytes)
        assert address == int(interface.address or 0)


def test_two_customers_with_the_same_router_address_are_resolved_by_their_vlan():
    assert len({link_of(port, vlan) for port in range(16) for vlan in range(4096)}) == 16 * 4096
    assert link_of(3) == 3


UNDERLAY = Interface(name="u", side=Side.UNDERLAY, mac=0x0200_0000_0001, address=IPv4Address("192.0.2.1"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"interfaces": ()}, "none is of the underlay"),
        ({"interfaces": (UNDERLAY, UNDERLAY)}, "u is there twice"),
        ({"gateway_id": ""}, "gateway_id"),
        (
            {
                "provider_networks": (
                    ProviderNetwork(realm=Network.STORAGE, prefixes=(ip_network("10.0.0.0/8"),)),
                    ProviderNetwork(realm=Network.MANAGEMENT, prefixes=(ip_network("10.1.0.0/16"),)),
                )
            },
            "10.1.0.0/16 of management overlaps 10.0.0.0/8 of storage",
        ),
    ],
)
def test_an_invalid_gateway_is_refused_with_the_reason(change, words):
    local = LocalConfig(**{"gateway_id": "gw", "interfaces": (UNDERLAY,), **change})
    with pytest.raises(ValueError, match=words):
        compile_tables(local, NetworkConfig(), neighbours={}, generation=1)
