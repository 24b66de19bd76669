"""Nexthop groups of the kernel, over which a host spreads the flows to virtual IPs: one for each VPC.

A group is resilient (a table of buckets): when a balancer goes, the flows of the others stay; one that comes gets
buckets that are idle, or have waited for long. The kernel hashes addresses and ports, without ports for fragments.
The ids are ours: a group's is derived from its VNI, a member's is the first free one.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from typing import Any, NamedTuple

from heddle.dataplane.config.balancers import balancer_mac
from heddle.dataplane.vtep.bridge_ports import device_of
from heddle.dataplane.vtep.desired import Spread
from heddle.foundation.address import mac_text

GROUP_BASE, MEMBER_BASE, IDS = 0x4800_0000, 0x4900_0000, 1 << 24
BUCKETS, IDLE_S, UNBALANCED_S = 128, 10, 60


class Nexthops(NamedTuple):
    """Installed nexthops: members by id, and members' ids by VNI of the group."""

    members: Mapping[int, IPv4Address]
    groups: Mapping[int, tuple[int, ...]]


def nexthops_of(rows: Iterable[Mapping[str, Any]]) -> Nexthops:
    """Return this module's nexthops from the output of `ip -j nexthop show`."""
    members, groups = {}, {}
    for row in rows:
        if "fdb" in row and MEMBER_BASE <= row["id"] < MEMBER_BASE + IDS and "gateway" in row:
            members[int(row["id"])] = IPv4Address(row["gateway"])
        elif "fdb" in row and GROUP_BASE <= row["id"] < GROUP_BASE + IDS and "group" in row:
            groups[int(row["id"]) - GROUP_BASE] = tuple(int(each["id"]) for each in row["group"])
    return Nexthops(members, groups)


def spreads_of(nexthops: Nexthops, vni: int, rows: Iterable[Mapping[str, Any]]) -> set[Spread]:
    """Return what is spread, from the output of `bridge -j fdb show` for a VPC's device: a group with its entry."""
    if not any(row.get("nhid") == GROUP_BASE + vni and row["mac"] == mac_text(balancer_mac(vni)) for row in rows):
        return set()
    vteps = [nexthops.members[each] for each in nexthops.groups.get(vni, ()) if each in nexthops.members]
    return {Spread(vni, tuple(sorted(vteps)))}


def nexthop_changes(have: Nexthops, want: Iterable[Spread]) -> tuple[list[str], list[str]]:
    """Return the lines for `ip -batch` that add and change nexthops, and those that remove them after all else."""
    wanted = {each.vni: each.vteps for each in want}
    needed = {vtep for vteps in wanted.values() for vtep in vteps}
    id_of = {vtep: number for number, vtep in sorted(have.members.items(), reverse=True) if vtep in needed}
    free = (number for number in range(MEMBER_BASE, MEMBER_BASE + IDS) if number not in have.members)
    lines = []
    for vtep in sorted(needed - id_of.keys()):
        id_of[vtep] = next(free)
        lines.append(f"nexthop add id {id_of[vtep]} via {vtep} fdb")
    for vni, vteps in sorted(wanted.items()):
        if set(have.groups.get(vni, ())) != {id_of[vtep] for vtep in vteps}:
            group = "/".join(str(id_of[vtep]) for vtep in vteps)
            timers = f"idle_timer {IDLE_S} unbalanced_timer {UNBALANCED_S}"
            lines.append(
                f"nexthop replace id {GROUP_BASE + vni} group {group} type resilient buckets {BUCKETS} {timers} fdb"
            )
    gone = [f"nexthop del id {GROUP_BASE + vni}" for vni in sorted(have.groups.keys() - wanted.keys())]
    gone += [f"nexthop del id {number}" for number in sorted(have.members.keys() - set(id_of.values()))]
    return lines, gone


def spread_line(vni: int) -> str:
    """Return the line for `bridge -batch` that sends frames for a VPC's virtual IPs to its group."""
    target = f"nhid {GROUP_BASE + vni} self permanent"
    return f"fdb replace {mac_text(balancer_mac(vni))} dev {device_of(vni)} {target}"
