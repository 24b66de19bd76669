"""Build a fabric from a draft: ids, ports in order, addresses as `generate` assigns them.

Ports: a leaf's links upwards first, then its NICs; any other switch's links downwards first, then those upwards; each
in the order of the source. Addresses count leaf by leaf: those of a leaf are contiguous, so few rules cover them.
"""

import re
from collections import Counter
from collections.abc import Mapping

from heddle.controller.config.foreign.draft import Draft
from heddle.controller.config.foreign.tiers import roles_of
from heddle.controller.config.generate import FIRST_IP
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from heddle.controller.model.limit import MAX_PORT_NUMBER

_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_ID_LENGTH = 63
_MAX_NAME_LENGTH = 40
"""Shorter than the limit of an id, so that a NIC's suffix fits."""
_MAC_PREFIX = 0x0200 << 32


class Names:
    """Assigns unique ids: the name itself if it is a valid id and free, else one derived from it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def give(self, wanted: str, otherwise: str) -> str:
        """Return an id that is not in use."""
        name = _FOREIGN.sub("-", wanted).lstrip("._-")
        if len(name) > _MAX_ID_LENGTH - len("-n9999999"):
            name = name[:_MAX_NAME_LENGTH]
        name = base = name.rstrip("-") or otherwise
        while name in self._taken:
            number = self._next[base] = self._next.get(base, 1) + 1
            name = f"{base}-{number}"
        self._taken.add(name)
        return name


class _Ports:
    """Assigns the ports of each switch, from 1."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._used: Counter[str] = Counter()

    def next_of(self, switch: str, switch_id: str, place: str) -> PortRef:
        number = self._used[switch] = self._used[switch] + 1
        if number > MAX_PORT_NUMBER:
            self._draft.refuse(place, f"switch {switch_id} has more than {MAX_PORT_NUMBER} ports")
        return PortRef(switch_id, number)


def build(draft: Draft) -> Fabric:
    """Return the fabric of a draft; raises InputError if a limit is exceeded or nothing is left."""
    if not draft.plugs:
        draft.refuse("", "no host is linked to a switch, so there is nothing to plan for")
    for place in _idle_hosts(draft):
        draft.leave_out("host without a link to a switch", place)
    role_of = roles_of(draft)
    names = Names()
    in_order = {name: at for at, name in enumerate(draft.switches)}
    by_tier = sorted(role_of, key=lambda name: (-role_of[name].tier, in_order[name]))
    id_of = {name: names.give(name, "switch") for name in by_tier}
    ports = _Ports(draft)
    cables = _cables(draft, role_of, id_of, ports)
    return Fabric(
        name=names.give(draft.fabric_name, "fabric"),
        switches=tuple(
            Switch(id=id_of[name], role=role_of[name], datapath_id=number) for number, name in enumerate(by_tier, 1)
        ),
        cables=cables,
        nics=_nics(draft, id_of, ports, names),
    )


def _idle_hosts(draft: Draft) -> list[str]:
    plugged = {plug.host for plug in draft.plugs}
    return [place for host, place in draft.hosts.items() if host not in plugged]


def _cables(
    draft: Draft, role_of: Mapping[str, Role], id_of: Mapping[str, str], ports: _Ports
) -> tuple[Cable, ...]:  # fmt: skip
    """Assign two ports to every link: first the downward ports of all switches, then the upward ones."""
    ends = [
        (link.a, link.b) if role_of[link.a].tier < role_of[link.b].tier else (link.b, link.a) for link in draft.links
    ]
    upper = [ports.next_of(up, id_of[up], link.place) for (_, up), link in zip(ends, draft.links, strict=True)]
    lower = [ports.next_of(low, id_of[low], link.place) for (low, _), link in zip(ends, draft.links, strict=True)]
    return tuple(
        Cable(lower=below, upper=above, capacity_bps=link.rate_bps)
        for below, above, link in zip(lower, upper, draft.links, strict=True)
    )


def _nics(draft: Draft, id_of: Mapping[str, str], ports: _Ports, names: Names) -> tuple[Nic, ...]:
    """Return the NICs host by host, hosts in the order of the source."""
    ip_of = _addresses(draft)
    hosts: dict[str, list[int]] = {}
    for number, plug in enumerate(draft.plugs):
        hosts.setdefault(plug.host, []).append(number)
    host_ids = {host: names.give(host, "host") for host in hosts}
    nics = []
    for host, plugs in hosts.items():
        for at, number in enumerate(plugs):
            plug = draft.plugs[number]
            nics.append(
                Nic(
                    id=names.give(f"{host_ids[host]}-n{at}", "nic"),
                    host=host_ids[host],
                    ip=ip_of[number],
                    mac=_MAC_PREFIX + ip_of[number],
                    port=ports.next_of(plug.switch, id_of[plug.switch], plug.place),
                    capacity_bps=plug.rate_bps,
                    rail=plug.rail,
                    gpus=plug.gpus,
                )
            )
    return tuple(nics)


def _addresses(draft: Draft) -> list[int]:
    """Return each plug's address: 10.0.0.1 and on, leaf by leaf."""
    leaf = {name: at for at, name in enumerate(draft.switches)}
    in_order = sorted(range(len(draft.plugs)), key=lambda number: leaf[draft.plugs[number].switch])
    ips = [0] * len(draft.plugs)
    for count, number in enumerate(in_order, 1):
        ips[number] = FIRST_IP + count
    return ips
