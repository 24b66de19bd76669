"""A gateway's tables from a few lines of Python, by a dict and a loop, without the checks of the configuration."""

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

import numpy as np

from heddle.dataplane.config.local import Timeouts
from heddle.dataplane.engine.hashing import mixed, mixed2, mixed3
from heddle.dataplane.jit import kernel
from heddle.dataplane.tables import schema


@kernel
def _hash1(first):
    return mixed(first)


@kernel
def _hash2(first, second):
    return mixed2(first, second)


@kernel
def _hash3(first, second, third):
    return mixed3(first, second, third)


HASHES: dict[int, Any] = {1: _hash1, 2: _hash2, 3: _hash3}
UNDERLAY_PORT, EXTERNAL_PORT, CUSTOMER_PORT, PROVIDER_PORT = range(4)
PROVIDER_ADDRESS = ip_address("192.0.2.200")


def signed(word):
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word


def wide(address):
    """Return an address as a number of 128 bits."""
    address = ip_address(address)
    return int(address) | (0xFFFF << 32 if address.version == 4 else 0)


def words(number):
    return signed(number >> 64), signed(number)


@dataclass
class FakeRule:
    allow: bool = True
    protocol: int = 0
    remote: str = "0.0.0.0/0"
    ports: tuple = (0, 65535)

    def row(self):
        prefix = ip_network(self.remote)
        length = prefix.prefixlen + (96 if prefix.version == 4 else 0)
        mask = ((1 << 128) - 1) ^ ((1 << 128 - length) - 1)
        return (
            self.allow,
            self.protocol,
            *words(wide(prefix.network_address)),
            *words(mask),
            *self.ports,
            prefix.version,
        )


@dataclass
class FakeVpc:
    vni: int
    endpoints: tuple = ()
    routes: dict = field(default_factory=dict)
    """Prefix -> kind, or (PEER, vni)."""
    rules_in: tuple = ()
    rules_out: tuple = ()
    border: tuple = ()
    nat: str = ""
    nat_ports: tuple = (1024, 65535)
    floating: dict = field(default_factory=dict)
    """Public -> endpoint."""


def _index(keys, rows):
    count = len(keys[0]) if keys else 1
    slots = 8
    while slots < 2 * len(keys):
        slots *= 2
    table = np.full((slots, count + 1), schema.EMPTY, dtype=np.int64)
    for key, row in zip(keys, rows, strict=True):
        slot = int(HASHES[count](*key)) & (slots - 1)
        while table[slot, count] != schema.EMPTY:
            slot = (slot + 1) & (slots - 1)
        table[slot] = (*key, row)
    return table


def _empty(words_of_key):
    return np.full((8, words_of_key + 1), schema.EMPTY, dtype=np.int64)


class _Builder:
    def __init__(self, vpcs):
        self.vpcs = vpcs
        self.row_of = {vpc.vni: row for row, vpc in enumerate(vpcs)}
        self.hops, self.rules = [], []

    def hop(self, **fields):
        row = np.zeros((), dtype=schema.NEXT_HOP)
        for name, value in {"mtu_bytes": 1450, "resolved": 1, "target_mac": 0x020000000001, **fields}.items():
            row[name] = value
        self.hops.append(row)
        return len(self.hops) - 1

    def slice(self, rules):
        first = len(self.rules)
        self.rules += [rule.row() for rule in rules]
        return first, len(rules)

    def endpoints(self):
        found = {}
        for row, vpc in enumerate(self.vpcs):
            for address in vpc.endpoints:
                key = (vpc.vni, *words(wide(address)))
                found[key] = self.hop(kind=schema.TUNNEL, vni=vpc.vni, vpc=row, port=UNDERLAY_PORT)
        return found

    def routes(self, vpc):
        found, lengths = {}, [0, 0, 0]
        for prefix, route in vpc.routes.items():
            kind, peer = route if isinstance(route, tuple) else (route, 0)
            network = ip_network(prefix)
            length = network.prefixlen + (96 if network.version == 4 else 0)
            ports = {schema.EXTERNAL: EXTERNAL_PORT, schema.CUSTOMER: CUSTOMER_PORT, schema.PROVIDER: PROVIDER_PORT}
            hop = self.hop(kind=kind, vni=peer, vpc=self.row_of.get(peer, -1), port=ports.get(kind, -1))
            found[vpc.vni << 8 | length, *words(wide(network.network_address))] = hop
            if network.version == 4:
                lengths[0] |= 1 << network.prefixlen
            elif length < 128:
                lengths[1 + length // 64] |= 1 << length % 64
        return found, [signed(word) for word in lengths]


def _own(per_endpoint, vpc_percent, endpoint_percent):
    times = Timeouts()
    own = np.zeros(schema.OWN_WORDS, dtype=np.int64)
    own[schema.OWN_ACTIVE] = 1
    own[schema.OWN_UDP_TIMEOUT_S], own[schema.OWN_UDP_UNANSWERED_S] = times.udp_s, times.udp_unanswered_s
    own[schema.OWN_TCP_TIMEOUT_S], own[schema.OWN_TCP_TRANSITORY_S] = times.tcp_established_s, times.tcp_transitory_s
    own[schema.OWN_ICMP_TIMEOUT_S], own[schema.OWN_OTHER_TIMEOUT_S] = times.icmp_s, times.other_s
    own[schema.OWN_FRAGMENT_TIMEOUT_S], own[schema.OWN_PER_ENDPOINT] = times.fragment_s, per_endpoint
    own[schema.OWN_NAT_FIRST], own[schema.OWN_NAT_LAST] = 1024, 65535
    own[schema.OWN_VPC_PERCENT], own[schema.OWN_ENDPOINT_PERCENT] = vpc_percent, endpoint_percent
    own[schema.OWN_PORTLESS] = 1
    own[schema.OWN_UDP_EXCHANGE_S] = times.udp_exchange_s
    return own


def make_tables(vpcs, *, generation=1, per_endpoint=1 << 16, vpc_percent=100, endpoint_percent=100):
    """Return `Tables` of some FakeVpcs; ports are numbered like sides."""
    build = _Builder(list(vpcs))
    endpoints, routes = build.endpoints(), {}
    rows = np.zeros(len(build.vpcs), dtype=schema.VPC)
    floating, nat = [], {}
    for number, vpc in enumerate(build.vpcs):
        found, lengths = build.routes(vpc)
        routes.update(found)
        rows[number] = (
            *(vpc.vni, 0x0248_0000_0000 | vpc.vni, *lengths, *build.slice(vpc.rules_in), *build.slice(vpc.rules_out)),
            *(int(ip_address(vpc.nat)) if vpc.nat else 0, *(vpc.nat_ports if vpc.nat else (0, 0))),
            *(*build.slice(vpc.border), 0, vpc.nat is not None and sum(vpc.nat == each.nat for each in build.vpcs) > 1),
        )
        if vpc.nat:
            nat.setdefault((int(ip_address(vpc.nat)),), number)
        for public, endpoint in vpc.floating.items():
            floating.append((int(ip_address(public)), int(ip_address(endpoint)), vpc.vni, number, 0))
    numbers = range(len(floating))
    addresses = (int(ip_address("192.0.2.1")), int(ip_address("198.51.100.1")), 0, int(PROVIDER_ADDRESS))
    return schema.Tables(
        generation=np.array([generation], dtype=np.int64),
        own=_own(per_endpoint, vpc_percent, endpoint_percent),
        vnis=_index([(vpc.vni,) for vpc in build.vpcs], range(len(build.vpcs))),
        vpcs=rows,
        vpc_incarnations=np.zeros(len(rows), dtype=np.int64),
        incarnations=_empty(1),
        vteps=_empty(2),
        endpoints=_index(list(endpoints), endpoints.values()) if endpoints else _empty(3),
        routes=_index(list(routes), routes.values()) if routes else _empty(3),
        next_hops=np.array(build.hops, dtype=schema.NEXT_HOP).reshape(-1),
        templates=np.zeros(64, dtype=np.uint8),
        endpoint_vteps=np.zeros(len(build.hops), dtype=np.int64),
        replies=_empty(1),
        rules=np.array(build.rules, dtype=schema.RULE).reshape(-1),
        floating_in=_index([row[:1] for row in floating], numbers) if floating else _empty(1),
        floating_out=_index([(row[2], row[1]) for row in floating], numbers) if floating else _empty(2),
        floating=np.array(floating, dtype=np.int64).reshape(-1, 5),
        nat_in=_index(list(nat), nat.values()) if nat else _empty(1),
        vlans=_empty(1),
        customers=np.zeros((1, 6), dtype=np.int64),
        ports=np.array(
            [(side, 0x02_00_00_00_00_10 + side, addresses[side], 1500) for side in range(4)], dtype=np.int64
        ),
    )
