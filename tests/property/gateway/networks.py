"""Hypothesis strategies of valid networks and gateways: few addresses, so that prefixes overlap and hide each other."""

from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network

from hypothesis import strategies as st

from heddle.dataplane.config.local import Interface, LocalConfig, PortShare, ProviderNetwork, Side
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
from heddle.foundation.network import Network

SUBNETS_V4 = ("10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/23", "10.1.0.0/16", "192.168.0.0/28")
SUBNETS_V6 = ("fd00::/64", "fd00:0:0:1::/64", "fd00:1::/48", "2001:db8::/125")
SUBNETS = [ip_network(text) for text in (*SUBNETS_V4, *SUBNETS_V6)]
CUSTOMERS = [ip_network(text) for text in ("172.30.0.0/16", "10.0.4.0/24", "10.2.3.4/32", "fd00:2::/40")]
PROVIDERS = [ip_network(text) for text in ("10.9.0.0/16", "10.0.0.0/25", "10.0.0.128/25", "fd00:9::/32", "10.8.0.0/13")]
REMOTES = [
    ip_network(text)
    for text in ("0.0.0.0/0", "::/0", "10.0.0.0/8", "10.0.0.0/31", "10.9.1.0/24", "fd00::/16", "172.30.0.1/32")
]
VTEPS = [IPv4Address(f"192.0.2.{last}") for last in range(1, 6)] + [IPv4Address("198.51.100.7")]
PUBLIC = [IPv4Address(f"203.0.113.{last}") for last in range(10, 20)]
ROUTERS = {"underlay": IPv4Address("192.0.2.254"), "external": IPv4Address("203.0.113.254")}
PROVIDER_NET = IPv4Network("10.9.0.0/24")


PORTS = st.sampled_from([0, 22, 80, 81, 4791, 65_535])


def rules(kind=SecurityRule, **more):
    return st.tuples(PORTS, PORTS).flatmap(
        lambda ports: st.builds(
            kind,
            allow=st.booleans(),
            protocol=st.sampled_from(Protocol),
            remote=st.sampled_from(REMOTES),
            port_min=st.just(min(ports)),
            port_max=st.just(max(ports)),
            **more,
        )
    )


@st.composite
def vpcs(draw, number):
    prefixes = draw(st.lists(st.sampled_from(SUBNETS), max_size=4, unique=True))
    subnets, endpoints = [], []
    for prefix in prefixes:
        places = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True))
        gateway, *rest = [prefix[place] for place in places]
        subnets.append(Subnet(prefix=prefix, gateway=gateway))
        for ip in rest:
            mac = 0x0600_0000_0000 | len(endpoints)  # the same in every VPC, as the addresses are
            endpoints.append(Endpoint(ip=ip, mac=mac, vtep=draw(st.sampled_from(VTEPS))))
    connects = draw(st.lists(st.sampled_from(CUSTOMERS), max_size=2, unique=True))
    floating = [endpoint.ip for endpoint in endpoints if endpoint.ip.version == 4][: draw(st.integers(0, 2))]
    return Vpc(
        id=f"vpc{number}",
        tenant=draw(st.sampled_from(["a", "b"])),
        vni=draw(st.integers(0, 3)) * 4 + number + 1,
        subnets=tuple(subnets),
        endpoints=tuple(draw(st.permutations(endpoints))),
        rules=tuple(draw(st.lists(rules(direction=st.sampled_from(Direction)), max_size=4))),
        nat=draw(st.sampled_from([None, PUBLIC[0], PUBLIC[1]])),
        direct_connects=tuple(
            DirectConnect(
                vlan=1 + number * 10 + i,
                customer=prefix,
                next_hop=ip_address("fe80::1" if prefix.version == 6 else "192.168.100.1"),
            )
            for i, prefix in enumerate(connects)
        ),
        floating_ips=tuple(FloatingIp(public=PUBLIC[2 + 2 * number + i], endpoint=ip) for i, ip in enumerate(floating)),
        realm=draw(st.sampled_from([Network.BUSINESS, Network.BUSINESS, Network.COMPUTE])),
    )


def prefixes_of(vpc):
    return [subnet.prefix for subnet in vpc.subnets] + [connect.customer for connect in vpc.direct_connects]


def _meet(ours, theirs):
    return any(one.version == other.version and one.overlaps(other) for one in ours for other in theirs)


@st.composite
def networks(draw, most=4):
    found = [draw(vpcs(number)) for number in range(draw(st.integers(0, most)))]
    near = {vpc.id: [vpc] for vpc in found}
    peerings = set()
    pairs = [(a, b) for i, a in enumerate(found) for b in found[i + 1 :]]
    for a, b in draw(st.permutations(pairs)):
        fits = all(not _meet(prefixes_of(b), prefixes_of(vpc)) for vpc in near[a.id])
        if fits and a.realm is b.realm and all(not _meet(prefixes_of(a), prefixes_of(vpc)) for vpc in near[b.id]):
            peerings.add(Peering(a=a.id, b=b.id))
            near[a.id].append(b)
            near[b.id].append(a)
    names = st.sampled_from(["*", *[vpc.id for vpc in found]])
    drawn = draw(st.lists(rules(BorderRule, vpc=names, realm=st.sampled_from(Network)), max_size=5))
    border = tuple(rule for rule in drawn if not (rule.allow and _is_ours(rule, found)))
    return NetworkConfig(
        generation=draw(st.integers(0, 9)), vpcs=tuple(found), peerings=frozenset(peerings), border=border
    )


def _is_ours(rule, found):
    """Return whether a border rule opens addresses of its VPC's subnets, or one that a VPC or a VTEP has."""
    own = [subnet.prefix for vpc in found if vpc.id == rule.vpc for subnet in vpc.subnets]
    if any(rule.remote.version == prefix.version and rule.remote.subnet_of(prefix) for prefix in own):
        return True
    return rule.remote.num_addresses == 1 and rule.remote[0] in (*PUBLIC, *VTEPS)


@st.composite
def gateways(draw):
    """A gateway with an underlay port and some of the other sides, in any order, and its known neighbours."""
    sides = draw(st.permutations([Side.UNDERLAY, *draw(st.sets(st.sampled_from(list(Side)[1:])))]))
    router = draw(st.booleans())
    interfaces: dict[Side, dict] = {
        Side.UNDERLAY: {
            "address": IPv4Address("192.0.2.100"),
            "network": IPv4Network("192.0.2.0/24"),
            "router": ROUTERS["underlay"] if router else None,
            "mtu_bytes": 9000,
        },
        Side.EXTERNAL: {
            "address": IPv4Address("203.0.113.1"),
            "network": IPv4Network("203.0.113.0/24"),
            "router": ROUTERS["external"] if router else None,
        },
        Side.CUSTOMER: {},
        Side.PROVIDER: {"address": PROVIDER_NET[1], "network": PROVIDER_NET, "router": PROVIDER_NET[254]},
    }
    realms = draw(st.permutations([Network.STORAGE, Network.MANAGEMENT, Network.COMPUTE]))
    provided = {realm: [] for realm in realms}
    for i, prefix in enumerate(draw(st.permutations(PROVIDERS))):
        if Side.PROVIDER in sides and not any(
            _meet([prefix], prefixes) for realm, prefixes in provided.items() if realm != realms[i % 3]
        ):
            provided[realms[i % 3]].append(prefix)
    local = LocalConfig(
        gateway_id="gw",
        interfaces=tuple(
            Interface(name=f"if{port}", side=side, mac=0x0200_0000_0000 | port, **interfaces[side])
            for port, side in enumerate(sides)
        ),
        provider_networks=tuple(ProviderNetwork(realm=realm, prefixes=tuple(p)) for realm, p in provided.items() if p),
        nat_ports=PortShare(first=1024, last=33_000),
    )
    return local, draw(neighbours(local))


@st.composite
def neighbours(draw, local):
    by_side: dict[Side, list] = {
        Side.UNDERLAY: [*VTEPS, ROUTERS["underlay"]],
        Side.EXTERNAL: [ROUTERS["external"], IPv4Address("203.0.113.77")],
        Side.CUSTOMER: [ip_address("192.168.100.1"), ip_address("fe80::1")],
        Side.PROVIDER: [PROVIDER_NET[254], PROVIDER_NET[9]],
    }
    found = {}
    for port, interface in enumerate(local.interfaces):
        vlans = [1, 2, 11, 12, 21, 31] if interface.side is Side.CUSTOMER else [0]
        for address in draw(st.sets(st.sampled_from(by_side[interface.side]))):
            for vlan in vlans:
                found[vlan << 16 | port, address] = 0x0A00_0000_0000 | int(address) & 0xFFFF | vlan << 16
    return found
