"""Decode a gateway's tables into a view: only entries that a packet's lookup finds, without the compiler's code."""

import numpy as np

from heddle.dataplane.jit import Ints, Row
from heddle.dataplane.tables import schema
from heddle.dataplane.tables.schema import Tables
from heddle.dataplane.verify.search import entries, row_of, unsigned128
from heddle.dataplane.verify.view import (
    ANY_REALM,
    BITS,
    V4_BITS,
    Delivery,
    Route,
    Rule,
    Span,
    View,
    VpcView,
    family_of,
    span_text,
)

TEMPLATE_TARGET = 30
"""Offset of the IPv4 destination in an outer header: 14 bytes of Ethernet and 16 of IPv4."""
TEMPLATE_VNI = 46


def installed(tables: Tables) -> View:
    """Return the view of these tables; raises ValueError if they are inconsistent."""
    found = View()
    keys, rows = entries(tables.vnis)
    for vni, row in zip(keys[:, 0].tolist(), rows.tolist(), strict=True):
        found.vpcs[vni] = _vpc(tables, vni, row)
    _endpoints(tables, found)
    _routes(tables, found)
    for vpc in found.vpcs.values():
        vpc.settle()
    keys, _ = entries(tables.vteps)
    for vni, vpc in found.vpcs.items():
        vpc.speakers = frozenset(keys[keys[:, 0] == vni, 1].tolist())
    _public(tables, found)
    return found


def _vpc(tables: Tables, vni: int, row: int) -> VpcView:
    vpc = tables.vpcs[row]
    border = _rules(tables, int(vpc["border"]), int(vpc["border_count"]))
    return VpcView(
        vni=vni,
        realm=int(vpc["realm"]),
        inward=_rules(tables, int(vpc["rules_in"]), int(vpc["rules_in_count"])),
        outward=_rules(tables, int(vpc["rules_out"]), int(vpc["rules_out_count"])),
        border={ANY_REALM: border},
        nat=int(vpc["nat_source"]),
    )


def _rules(tables: Tables, first: int, count: int) -> tuple[Rule, ...]:
    found = []
    for row in tables.rules[first : first + count]:
        mask = unsigned128(row["mask_hi"], row["mask_lo"])
        first_address = unsigned128(row["remote_hi"], row["remote_lo"])
        length = mask.bit_count()
        if mask != (1 << BITS) - (1 << (BITS - length)):
            raise ValueError(f"a rule's mask is not a prefix's: {mask:#x}")
        found.append(
            Rule(
                bool(row["allow"]),
                int(row["protocol"]),
                int(row["family"]),
                Span(first_address & mask, length),
                int(row["port_min"]),
                int(row["port_max"]),
            )
        )
    return tuple(found)


def _endpoints(tables: Tables, view: View) -> None:
    keys, rows = entries(tables.endpoints)
    if not len(rows):
        return
    hops = tables.next_hops[rows]
    starts = hops["template"]
    targets = _field(tables, starts, TEMPLATE_TARGET, 4)
    vnis = _field(tables, starts, TEMPLATE_VNI, 3)
    homes = tables.endpoint_vteps[rows]
    replying = _replying(tables)
    columns = (
        keys.tolist(),
        rows.tolist(),
        targets.tolist(),
        vnis.tolist(),
        hops["target_mac"].tolist(),
        homes.tolist(),
    )
    for (vni, high, low), row, target, outer_vni, mac, home in zip(*columns, strict=True):
        vpc = view.vpcs.get(vni)
        if vpc is not None:
            address = unsigned128(high, low)
            vpc.deliveries[address] = Delivery(outer_vni, target, mac)
            vpc.homes[address] = home
            if row in replying:
                vpc.replying[address] = frozenset(replying[row])


def _replying(tables: Tables) -> dict[int, list[int]]:
    """Return the VTEPs of back ends by the row of the virtual IP from which they reply."""
    found: dict[int, list[int]] = {}
    for (key,) in entries(tables.replies)[0].tolist():
        found.setdefault(key >> 32, []).append(key & 0xFFFF_FFFF)
    return found


def _field(tables: Tables, starts: Ints, at: int, count: int) -> Ints:
    """Return a field of `count` bytes at offset `at` of each outer header, as numbers."""
    found = np.zeros(len(starts), dtype=np.int64)
    for byte in range(count):
        found = found << 8 | tables.templates[starts + at + byte]
    return found


def _routes(tables: Tables, view: View) -> None:
    lengths = {vni: _lengths(tables.vpcs[row_of(tables.vnis, vni)]) for vni in view.vpcs}
    keys, rows = entries(tables.routes)
    for (first, high, low), row in zip(keys.tolist(), rows.tolist(), strict=True):
        vni, span = first >> 8, Span(unsigned128(high, low), first & 0xFF)
        if vni in lengths and (span.length >= V4_BITS and family_of(span.first) == 4, span.length) in lengths[vni]:
            view.vpcs[vni].routes[span] = _route(tables, row, span)


def _lengths(vpc: Row) -> set[tuple[bool, int]]:
    """Return the prefix lengths that a route lookup tries, as (is IPv4-mapped, length)."""
    both = unsigned128(vpc["lengths_v6_high"], vpc["lengths_v6_low"])
    found = {(False, bit) for bit in range(BITS) if both >> bit & 1} | {(False, BITS)}
    return found | {(True, V4_BITS + bit) for bit in range(33) if int(vpc["lengths_v4"]) >> bit & 1}


def _route(tables: Tables, row: int, span: Span) -> Route:
    hop = tables.next_hops[row]
    cause = f"route {span_text(span)}, next hop {row}"
    kind = int(hop["kind"])
    if kind == schema.PEER:
        return Route("vpc", int(hop["vni"]), cause)
    if kind == schema.PROVIDER:
        return Route("network", int(hop["realm"]), cause)
    if kind == schema.CUSTOMER:
        return Route("customer", int(hop["vlan"]), cause)
    if kind == schema.EXTERNAL:
        return Route("internet", 0, cause)
    if kind == schema.TUNNEL:
        return Route("vpc", int(hop["vni"]), cause)
    return Route("gateway" if kind == schema.LOCAL else "discard", 0, cause)


def _public(tables: Tables, view: View) -> None:
    keys, rows = entries(tables.floating_in)
    for public, row in zip(keys[:, 0].tolist(), rows.tolist(), strict=True):
        _, endpoint, vni, _, _ = tables.floating[row].tolist()
        view.floating_in[public] = (vni, endpoint)
    keys, rows = entries(tables.floating_out)
    for (vni, endpoint), row in zip(keys.tolist(), rows.tolist(), strict=True):
        if vni in view.vpcs:
            view.vpcs[vni].floating[endpoint] = int(tables.floating[row, 0])
    view.nat_in = frozenset(entries(tables.nat_in)[0][:, 0].tolist())
    keys, rows = entries(tables.vlans)
    for link, row in zip(keys[:, 0].tolist(), rows.tolist(), strict=True):
        vni, _, high, low, mask_high, mask_low = tables.customers[row].tolist()
        length = unsigned128(mask_high, mask_low).bit_count()
        family = 6 if link & schema.VLAN_OF_IPV6 else 4
        view.customers[link & 0xFFF, family] = (vni, Span(unsigned128(high, low), length))
