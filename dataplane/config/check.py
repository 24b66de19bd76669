"""Validate virtual networks: each VPC by itself, its claims, prefixes around a VPC, and the border rules.

Every function yields one line per problem, with the object and the field; nothing for a valid configuration. The checks
ensure that an address is unambiguous wherever packets are routed by it. VPCs that are not peered may use equal
addresses. Public addresses, VNIs and VLANs are global, so each has one owner (VPCs may share a NAT address).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address

from heddle.dataplane.config import limit
from heddle.dataplane.config.addresses import V4_MAPPED, V4_MAPPED_LENGTH, contains, gateway_mac
from heddle.dataplane.config.check_served import REMEDY, public_addresses
from heddle.dataplane.config.network import Address, BorderRule, Peering, Prefix, Vpc
from heddle.dataplane.config.refusal import shown
from heddle.foundation.address import mac_text

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
MULTICAST_MAC = 1 << 40
MAX_NAMED = 5
Known = Callable[[IPv4Address], bool]
Named = tuple[Prefix, str]
"""A prefix and its name in messages."""


def vpc_problems(vpc: Vpc, is_vtep: Known | None = None) -> Iterator[str]:
    """Check a VPC by itself; `is_vtep` returns whether a VTEP exists, None accepts all."""
    for line in _vpc_lines(vpc, is_vtep):
        yield f"vpc {vpc.id if NAME.fullmatch(vpc.id) else shown(vpc.id)}: {line}"


def _vpc_lines(vpc: Vpc, is_vtep: Known | None) -> Iterator[str]:
    if not NAME.fullmatch(vpc.id):
        yield f"id: must be 1 to {limit.MAX_NAME_LENGTH} letters, digits, '.', '_' or '-', the first a letter or digit"
    if len(vpc.tenant) > limit.MAX_NAME_LENGTH:
        yield f"tenant: longer than {limit.MAX_NAME_LENGTH} characters"
    if not 1 <= vpc.vni <= limit.MAX_VNI:
        yield f"vni: {vpc.vni} is not within 1 to {limit.MAX_VNI}"
    too_many = list(_counts(vpc))
    if too_many:
        yield from too_many
        return
    yield from _subnets(vpc)
    yield from _endpoints(vpc, is_vtep)
    for i, rule in enumerate(vpc.rules):
        yield from _rule(f"security_rules[{i}]", rule.remote, rule.port_min, rule.port_max)
    yield from _direct_connects(vpc)
    yield from _public(vpc)
    yield from _public_places(vpc, is_vtep)


def _counts(vpc: Vpc) -> Iterator[str]:
    for name, count, maximum in (
        ("subnets", len(vpc.subnets), limit.MAX_SUBNETS),
        ("endpoints", len(vpc.endpoints), limit.MAX_ENDPOINTS_OF_A_VPC),
        ("security_rules", len(vpc.rules), limit.MAX_RULES),
        ("direct_connects", len(vpc.direct_connects), limit.MAX_DIRECT_CONNECTS),
        ("floating_ips", len(vpc.floating_ips), limit.MAX_FLOATING_IPS),
    ):
        if count > maximum:
            yield f"{name}: {count}; at most {maximum}"


def _subnets(vpc: Vpc) -> Iterator[str]:
    for i, subnet in enumerate(vpc.subnets):
        prefix, gateway = subnet.prefix, subnet.gateway
        network = prefix.network_address
        if network.is_multicast or network.is_loopback or network.is_link_local or is_mapped(prefix):
            yield f"subnets[{i}].cidr: {prefix} is not for endpoints"
        if not holds(prefix, gateway):
            yield f"subnets[{i}].gateway_ip: {gateway} is not in {prefix}"
        elif is_edge(prefix, gateway):
            yield f"subnets[{i}].gateway_ip: {gateway} is the network's or broadcast address of {prefix}"
    named = [(subnet.prefix, f"subnets[{i}].cidr: {subnet.prefix}") for i, subnet in enumerate(vpc.subnets)]
    for later, earlier in overlaps(named):
        yield f"{later} overlaps {earlier}"


def _endpoints(vpc: Vpc, is_vtep: Known | None) -> Iterator[str]:
    """Check endpoints. One MAC may have several addresses at one VTEP: an endpoint for each of a dual-stack NIC."""
    gateways = {subnet.gateway for subnet in vpc.subnets}
    finder = _Finder(subnet.prefix for subnet in vpc.subnets)
    of_ip: dict[Address, int] = {}
    of_mac: dict[int, int] = {}
    own = gateway_mac(vpc.vni)
    for i, endpoint in enumerate(vpc.endpoints):
        ip, mac, vtep = endpoint.ip, endpoint.mac, endpoint.vtep
        subnet = finder.of(ip)
        if subnet is None:
            yield f"endpoints[{i}].ip: {ip} is in no subnet of the VPC"
        elif ip in gateways:
            yield f"endpoints[{i}].ip: {ip} is a gateway's address"
        elif is_edge(subnet, ip):
            yield f"endpoints[{i}].ip: {ip} is the network's or broadcast address of {subnet}"
        if of_ip.setdefault(ip, i) != i:
            yield f"endpoints[{i}].ip: {ip} is endpoints[{of_ip[ip]}]'s already"
        if not 0 < mac < 1 << 48 or mac & MULTICAST_MAC:
            yield f"endpoints[{i}].mac: {mac_text(mac)} is no unicast MAC"
        elif mac == own:
            yield f"endpoints[{i}].mac: {mac_text(mac)} is the MAC of the VPC's gateways"
        first = of_mac.setdefault(mac, i)
        if first != i and vpc.endpoints[first].vtep != vtep:
            yield f"endpoints[{i}].mac: {mac_text(mac)} is endpoints[{first}]'s already, behind another VTEP"
    yield from _vteps(vpc, is_vtep)


def _vteps(vpc: Vpc, is_vtep: Known | None) -> Iterator[str]:
    """Check each VTEP once; all unknown VTEPs are reported in one line, since usually a whole file is affected."""
    behind: dict[IPv4Address, list[int]] = {}
    for i, endpoint in enumerate(vpc.endpoints):
        behind.setdefault(endpoint.vtep, []).append(i)
    unknown = []
    for vtep, places in behind.items():
        if not is_unicast(vtep):
            yield f"endpoints[{places[0]}].vtep_ip: {vtep} is no VTEP: no host has such an address"
        elif is_vtep is not None and not is_vtep(vtep):
            unknown.append(vtep)
    if unknown:
        first, *others = unknown
        count = sum(len(behind[vtep]) for vtep in unknown)
        named = ", ".join(map(str, others[:MAX_NAMED]))
        named += f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
        where = f"endpoints[{behind[first][0]}].vtep_ip: {first} is no VTEP that this controller knows"
        others_too = f", nor are {named}" if others else ""
        how_many = f"{count} endpoint{'s' if count > 1 else ''}"
        yield (
            f"{where}{others_too} ({how_many}): neither a NIC of its fabric nor in its config key `vteps` "
            "(heddle run --config); or name the hosts' own controller by --server"
        )


def _rule(place: str, remote: Prefix, low: int, high: int) -> Iterator[str]:
    if is_mapped(remote):
        yield f"{place}.remote_cidr: {remote} is IPv4 in IPv6's form; write the IPv4 prefix"
    if not 0 <= low <= high <= limit.LAST_PORT:
        yield f"{place}.port_min: {low} to {high} is no range of ports within 0 to {limit.LAST_PORT}"


def _direct_connects(vpc: Vpc) -> Iterator[str]:
    of_vlan: dict[tuple[int, int], int] = {}
    for i, connect in enumerate(vpc.direct_connects):
        if not 1 <= connect.vlan <= limit.MAX_VLAN:
            yield f"direct_connects[{i}].vlan: {connect.vlan} is not within 1 to {limit.MAX_VLAN}"
        elif (first := of_vlan.setdefault((connect.vlan, connect.customer.version), i)) != i:
            family = f"for IPv{connect.customer.version}"
            yield f"direct_connects[{i}].vlan: {connect.vlan} is direct_connects[{first}]'s already, {family}"
        if is_mapped(connect.customer) or connect.customer.network_address.is_multicast:
            yield f"direct_connects[{i}].customer_cidr: {connect.customer} is no network of a customer"
        if connect.next_hop.version != connect.customer.version:
            yield f"direct_connects[{i}].next_hop_ip: {connect.next_hop} is not of the family of {connect.customer}"
        elif not is_unicast(connect.next_hop):
            yield f"direct_connects[{i}].next_hop_ip: {connect.next_hop} is no address of a router"
    for later, earlier in overlaps(_prefixes(vpc, "")):
        if "direct_connects" in later + earlier:
            yield f"{later} overlaps {earlier}" if "direct_connects" in later else f"{earlier} overlaps {later}"


def floating_problems(vpc: Vpc, virtual_ips: Collection[Address] = ()) -> Iterator[str]:
    """Check that each floating IP leads to an endpoint of its VPC, or to one of its virtual IPs."""
    addresses = {*(endpoint.ip for endpoint in vpc.endpoints), *virtual_ips} if vpc.floating_ips else set()
    for i, floating in enumerate(vpc.floating_ips):
        if floating.endpoint not in addresses:
            what = f"{floating.endpoint} is no endpoint and no virtual IP of the VPC"
            yield f"vpc {vpc.id}: floating_ips[{i}].endpoint_ip: {what}"


def _public(vpc: Vpc) -> Iterator[str]:
    if vpc.nat is not None and not is_unicast(vpc.nat):
        yield f"nat.public_ip: {vpc.nat} is no address of a host"
    of_public: dict[IPv4Address, str] = {vpc.nat: "nat.public_ip"} if vpc.nat is not None else {}
    of_endpoint: dict[IPv4Address, str] = {}
    for i, floating in enumerate(vpc.floating_ips):
        place = f"floating_ips[{i}]"
        if not is_unicast(floating.public):
            yield f"{place}.public_ip: {floating.public} is no address of a host"
        if of_public.setdefault(floating.public, place) != place:
            yield f"{place}.public_ip: {floating.public} is {of_public[floating.public]}'s already"
        if of_endpoint.setdefault(floating.endpoint, place) != place:
            yield f"{place}.endpoint_ip: {floating.endpoint} is {of_endpoint[floating.endpoint]}'s already"


def _public_places(vpc: Vpc, is_vtep: Known | None) -> Iterator[str]:
    """Check that no public address is also one of the VPC's own networks, or a VTEP's."""
    finder = _Finder(subnet.prefix for subnet in vpc.subnets)
    vteps = {endpoint.vtep for endpoint in vpc.endpoints}
    for field, address in public_addresses(vpc):
        if (home := finder.of(address)) is not None:
            yield f"{field}: {address} is in {home}, a subnet of the VPC itself; {REMEDY}"
        elif address in vteps or (is_vtep is not None and is_vtep(address)):
            yield f"{field}: {address} is a VTEP's, where tunnels end; {REMEDY}"


Claims = Mapping[tuple[str, int], str]
"""Owners of global resources: ("vni", 5), ("vlan", 7) or ("floating", address) to the id of the VPC; ("nat", address)
to one of the VPCs that share it."""


def claims_of(vpc: Vpc) -> Iterator[tuple[tuple[str, int], str]]:
    """Return the global resources of a VPC, each with its field."""
    yield ("vni", vpc.vni), f"vni: {vpc.vni}"
    for i, connect in enumerate(vpc.direct_connects):
        yield ("vlan", connect.vlan), f"direct_connects[{i}].vlan: {connect.vlan}"
    for i, floating in enumerate(vpc.floating_ips):
        yield ("floating", int(floating.public)), f"floating_ips[{i}].public_ip: {floating.public}"
    if vpc.nat is not None:
        yield ("nat", int(vpc.nat)), f"nat.public_ip: {vpc.nat}"


def claim_problems(vpc: Vpc, claims: Claims) -> Iterator[str]:
    """Check a VPC's global resources against those of others."""
    against = {"vni": ("vni",), "vlan": ("vlan",), "floating": ("floating", "nat"), "nat": ("floating",)}
    for (kind, number), place in claims_of(vpc):
        for other in against[kind]:
            owner = claims.get((other, number))
            if owner is not None and owner != vpc.id:
                yield f"vpc {vpc.id}: {place} is used by vpc {owner} already"


Neighbours = Mapping[str, Iterable[str]]


def neighbours_of(peerings: Iterable[Peering]) -> dict[str, frozenset[str]]:
    """Return the ids of the peers of each VPC that has any."""
    found: dict[str, frozenset[str]] = {}
    for peering in peerings:
        for one, other in ((peering.a, peering.b), (peering.b, peering.a)):
            found[one] = found.get(one, frozenset()) | {other}
    return found


def ring_problems(centre: str, by_id: Mapping[str, Vpc], peers: Neighbours) -> Iterator[str]:
    """Yield the conflicts between a VPC and its direct peers: overlapping prefixes and different networks."""
    ring = [by_id[centre], *(by_id[peer] for peer in sorted(peers.get(centre, ())))]
    for other in ring[1:]:
        if other.realm is not ring[0].realm:
            yield (
                f"network: {centre} is of {ring[0].realm}, its peer {other.id} of {other.realm}; "
                "between networks only a border rule opens a path"
            )
    named = [each for vpc in ring for each in _prefixes(vpc, f"{vpc.id} ")]
    for later, earlier in overlaps(named):
        if later.split()[0] != earlier.split()[0]:
            yield f"{later} overlaps {earlier}, and {centre} reaches both"


def border_problems(rules: Sequence[BorderRule], vpcs: Iterable[str]) -> Iterator[str]:
    """Check the border's rules."""
    known = {"*", *vpcs}
    if len(rules) > limit.MAX_BORDER_RULES:
        yield f"border: rules: {len(rules)}; at most {limit.MAX_BORDER_RULES}"
        return
    for i, rule in enumerate(rules):
        if rule.vpc not in known:
            yield f"border: rules[{i}].vpc: there is no vpc {shown(rule.vpc)}; '*' is for all"
        for line in _rule(f"rules[{i}]", rule.remote, rule.port_min, rule.port_max):
            yield f"border: {line}"


class _Finder:
    """Index of subnets: finds the subnet of an address by prefix length instead of a linear search."""

    def __init__(self, prefixes: Iterable[Prefix]) -> None:
        self._by_length: dict[tuple[int, int], dict[int, Prefix]] = {}
        for prefix in prefixes:
            shift = prefix.max_prefixlen - prefix.prefixlen
            same = self._by_length.setdefault((prefix.version, shift), {})
            same[int(prefix.network_address) >> shift] = prefix

    def of(self, address: Address) -> Prefix | None:
        number, version = int(address), address.version
        for (family, shift), prefixes in self._by_length.items():
            if family == version and (found := prefixes.get(number >> shift)) is not None:
                return found
        return None


def _prefixes(vpc: Vpc, start: str) -> list[Named]:
    return [(subnet.prefix, f"{start}subnets[{i}].cidr: {subnet.prefix}") for i, subnet in enumerate(vpc.subnets)] + [
        (connect.customer, f"{start}direct_connects[{i}].customer_cidr: {connect.customer}")
        for i, connect in enumerate(vpc.direct_connects)
    ]


def overlaps(named: Iterable[Named]) -> Iterator[tuple[str, str]]:
    """Return the names of overlapping prefixes: each prefix that lies in another, with the smallest one around it."""
    around: list[Named] = []
    ordered = sorted(
        enumerate(named), key=lambda e: (e[1][0].version, int(e[1][0].network_address), e[1][0].prefixlen, e[0])
    )
    for _, (prefix, name) in ordered:
        while around and not contains(around[-1][0], prefix):
            around.pop()
        if around:
            yield name, around[-1][1]
        around.append((prefix, name))


def holds(prefix: Prefix, address: Address) -> bool:
    """Return whether an address is in a prefix, of the same family."""
    return address.version == prefix.version and address in prefix


def is_edge(prefix: Prefix, address: Address) -> bool:
    """Return whether an address is its prefix's network or broadcast address (RFC 1122, 3.2.1.3).

    IPv6 has no broadcast address. Prefixes of one or two addresses have neither (RFC 3021, RFC 6164).
    """
    if prefix.max_prefixlen - prefix.prefixlen < 2:
        return False
    return address == prefix.network_address or (prefix.version == 4 and address == prefix.broadcast_address)


def is_unicast(address: Address) -> bool:
    """Return whether an address can be a host's."""
    return not (address.is_multicast or address.is_unspecified or address.is_loopback or is_limited_broadcast(address))


def is_limited_broadcast(address: Address) -> bool:
    """Return whether an address is 255.255.255.255."""
    return address.version == 4 and int(address) == 0xFFFF_FFFF


def is_mapped(prefix: Prefix) -> bool:
    """Return whether an IPv6 prefix lies in ::ffff:0:0/96, which never occurs on a wire (RFC 4291, 2.5.5.2)."""
    if prefix.version == 4 or prefix.prefixlen < V4_MAPPED_LENGTH:
        return False
    return int(prefix.network_address) >> 32 == V4_MAPPED >> 32
