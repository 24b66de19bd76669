"""Filter what endpoints send on a host with the kernel's VXLAN: one chain of nftables per interface.

A chain is attached to its interface's ingress, before the bridge, and accepts ARP, IPv4 and IPv6 with the MAC and an
address of an endpoint as their source. It drops everything else: requests for an endpoint's own address (address
conflict detection, which the VXLAN device would answer), router advertisements, redirects, unsolicited neighbour
advertisements and those of other addresses, VLAN tags, other protocols. Chains are written as nft lists them, so the
installed text equals the desired one.
"""

from collections.abc import Mapping

from heddle.dataplane.vtep.desired import HostState
from heddle.dataplane.vtep.sources import Source, sources
from heddle.foundation.address import mac_text

TABLE = "netdev heddle"
Chains = Mapping[str, tuple[str, ...]]
"""Lines of each chain by name; the first has the interface."""


def filters(want: HostState, ports: Mapping[tuple[int, int], str]) -> dict[str, tuple[str, ...]]:
    """Return the desired chains; `ports` maps (VNI, MAC) of endpoints to present interfaces."""
    by_port: dict[str | int, list[Source]] = {}
    for source in sources(want, ports):
        by_port.setdefault(source.port, []).append(source)
    chains = {}
    for port, found in by_port.items():
        hook = f'type filter hook ingress device "{port}" priority filter; policy drop;'
        chains[f"e{found[0].vni}_{found[0].mac:012x}"] = (hook, *_rules(found))
    return chains


def _rules(found: list[Source]) -> list[str]:
    """Return the rules of an interface, those of most packets first."""
    return [
        *(f"ether type {tag} drop" for tag in ("8021q", "8021ad")),
        *(f"ether saddr {mac_text(source.mac)} ip saddr {ip} accept" for source in found for ip in source.v4),
        *_virtual(found, 4),
        *_advertisements([int(address) for source in found for address in source.v6]),
        *(f"ether saddr {mac_text(source.mac)} ip6 saddr {ip} accept" for source in found for ip in source.v6),
        *_virtual(found, 6),
        *(f"arp operation request arp daddr ip {ip} drop" for source in found for ip in source.v4),
        *(rule for source in found if source.v4 for rule in _arp(source)),
    ]


def _virtual(found: list[Source], version: int) -> list[str]:
    """Return the rules that admit replies from virtual IPs; behind those that drop advertisements."""
    family = "ip" if version == 4 else "ip6"
    return [
        f"ether saddr {mac_text(source.mac)} {family} saddr {ip} accept"
        for source in found
        for ip in source.virtual
        if ip.version == version
    ]


def _advertisements(own: list[int]) -> list[str]:
    """Return the rules that drop advertisements and redirects, but for solicited advertisements of own addresses."""
    if not own:
        return []
    neighbour = "icmpv6 type nd-neighbor-advert"
    foreign = " ".join(f"@th,64,128 != {address:#034x}" for address in own)
    return [
        "icmpv6 type nd-router-advert drop",
        "icmpv6 type nd-redirect drop",
        f"{neighbour} @th,32,8 & 0x40 == 0x0 drop",
        f"{neighbour} {foreign} drop",
    ]


def _arp(source: Source) -> list[str]:
    mac = mac_text(source.mac)
    probe = f"arp operation request arp saddr ether {mac} arp saddr ip 0.0.0.0 ether saddr {mac} accept"
    return [*(f"ether saddr {mac} arp saddr ether {mac} arp saddr ip {ip} accept" for ip in source.v4), probe]


def listed(ruleset: str) -> dict[str, tuple[str, ...]] | None:
    """Return the installed chains from the output of `nft -s list ruleset netdev`; None without the table."""
    chains: dict[str, tuple[str, ...]] = {}
    table, chain, found = "", "", False
    for line in map(str.strip, ruleset.splitlines()):
        words = line.split()
        if line.startswith("table "):
            table = " ".join(words[1:3])
            found = found or table == TABLE
        elif table == TABLE and line.startswith("chain "):
            chain = words[1]
            chains[chain] = ()
        elif line == "}":
            table, chain = (table, "") if chain else ("", "")
        elif chain:
            chains[chain] += (line,)
    return chains if found else None


def filter_changes(have: Chains | None, want: Chains) -> tuple[list[str], list[str]]:
    """Return the lines for `nft -f` that install chains, before and after ports are attached and detached.

    A chain that goes drops everything until its interface is detached. Each batch is one transaction.
    """
    gone = sorted((have or {}).keys() - want.keys())
    before = [f"flush chain {TABLE} {name}" for name in gone]
    after = [f"delete chain {TABLE} {name}" for name in gone]
    if not want:
        return before, [f"delete table {TABLE}"] if have is not None else []
    for name, wanted in sorted(want.items()):
        installed = (have or {}).get(name, ())
        if installed == wanted:
            continue
        if installed:
            before.append(f"flush chain {TABLE} {name}")
        if installed[:1] != wanted[:1]:
            before += [f"delete chain {TABLE} {name}"] if installed else ()
            before.append(f"add chain {TABLE} {name} {{ {wanted[0]} }}")
        before += [f"add rule {TABLE} {name} {rule}" for rule in wanted[1:]]
    return [f"add table {TABLE}", *before] if before else [], after
