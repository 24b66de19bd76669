"""Merge the listed switches, links and hosts of a fabric file into the generated ones, and check the whole.

An entry replaces the switch or host of the same id, or the link between the same two ports; otherwise it adds one.
Generated parts have no conflicts among themselves. So every conflict involves an entry, and is reported at its path.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

from heddle.controller.config.fabric_file import FabricShape, HostShape, LinkShape, SwitchShape
from heddle.controller.config.generate import Parts, port_id
from heddle.controller.config.nic_ports import in_planes, nic_ports
from heddle.controller.model.address import ip_text
from heddle.controller.model.admission import Problem
from heddle.controller.model.fabric import Cable, Nic, PortRef, Role, Switch
from heddle.controller.model.limit import MAX_CABLES, MAX_NICS, MAX_SWITCHES
from heddle.controller.model.suggest import did_you_mean
from heddle.foundation.address import mac_text

_MAX_DATAPATH_ID = 2**64 - 1
_ANOTHER_ID = "; keep one, or choose another id"

CablePorts = tuple[PortRef, PortRef]


class Merge:
    """One merge: the parts so far, the key paths of those that the file lists, and the problems found."""

    def __init__(self, generated: Parts) -> None:
        self.problems: list[Problem] = []
        self._switches = {switch.id: switch for switch in generated.switches}
        self._cables = {_ports(cable.lower, cable.upper): cable for cable in generated.cables}
        self._hosts: dict[str, list[Nic]] = {}
        for nic in generated.nics:
            self._hosts.setdefault(nic.host, []).append(nic)
        self._switch_place: dict[str, str] = {}
        self._cable_place: dict[CablePorts, str] = {}
        self._nic_place: dict[int, str] = {}
        self._roles_changed: dict[str, str] = {}

    def draw(self, shape: FabricShape) -> Parts:
        """Merge all entries and check the result; it is valid if `problems` stays empty."""
        self._draw_switches(shape.switches)
        self._draw_links(shape.links)
        self._draw_hosts(shape.hosts)
        if self._roles_changed:
            self._turn_cables()
        parts = Parts(
            sorted(self._switches.values(), key=lambda switch: switch.datapath_id),
            list(self._cables.values()),
            [nic for nics in self._hosts.values() for nic in nics],
        )
        if any(nic.of for nic in parts.nics):
            planes, found = in_planes(parts, self._nic_place)
            self.problems += found
            parts = parts._replace(nics=planes)
        self._check_limits(parts)
        self._check_ports(parts)
        self._check_names(parts)
        self._check_addresses(parts)
        return parts

    def _refuse(self, path: str, text: str) -> None:
        self.problems.append(Problem(path, text))

    def _draw_switches(self, drawn: list[SwitchShape]) -> None:
        numbers = {switch.id: switch.datapath_id for switch in self._switches.values()}
        numbers |= {one.id: one.datapath_id for one in drawn if one.datapath_id is not None}
        largest = max(numbers.values(), default=0)
        for index, one in enumerate(drawn):
            path = f"switches[{index}]"
            if one.id in self._switch_place:
                self._refuse(f"{path}.id", f"{one.id} is drawn twice, at {self._switch_place[one.id]} too{_ANOTHER_ID}")
                continue
            self._switch_place[one.id] = path
            number = numbers.get(one.id)
            if number is None:
                number = largest = largest + 1
                if number > _MAX_DATAPATH_ID:
                    self._refuse(f"{path}.datapath_id", "missing, and the largest possible number is in use")
            before = self._switches.get(one.id)
            if before is not None and before.role != one.role:
                self._roles_changed[one.id] = path
            self._switches[one.id] = Switch(
                id=one.id, role=Role(one.role), datapath_id=number, rule_budget=one.rule_budget
            )

    def _draw_links(self, drawn: list[LinkShape]) -> None:
        for index, one in enumerate(drawn):
            path = f"links[{index}]"
            key = _ports(one.a, one.b)
            if key in self._cable_place:
                self._refuse(path, f"{one.a} to {one.b} is drawn twice, at {self._cable_place[key]} too; keep one")
                continue
            cable = self._cable_of(one, path)
            if cable is not None:
                self._cables[key] = cable
                self._cable_place[key] = path

    def _cable_of(self, one: LinkShape, path: str) -> Cable | None:
        """Return the cable of a link, or None after reporting why it cannot exist."""
        known = [self._known_switch(one.a.switch, f"{path}.a"), self._known_switch(one.b.switch, f"{path}.b")]
        if not all(known):
            return None
        if one.a.switch == one.b.switch:
            self._refuse(path, f"{one.a} to {one.b} links {one.a.switch} to itself; a link joins two switches")
            return None
        role_a, role_b = self._switches[one.a.switch].role, self._switches[one.b.switch].role
        if role_a.tier == role_b.tier:
            what = f"{one.a.switch} ({role_a}) to {one.b.switch} ({role_b})"
            self._refuse(
                path, f"{what} joins two switches of one tier; a link leads up from leaf to agg to spine or core"
            )
            return None
        lower, upper = (one.a, one.b) if role_a.tier < role_b.tier else (one.b, one.a)
        return Cable(lower=lower, upper=upper, capacity_bps=one.capacity_bps)

    def _known_switch(self, name: str, path: str) -> bool:
        if name in self._switches:
            return True
        self._refuse(path, f"no switch named {name}{did_you_mean(name, self._switches)}")
        return False

    def _draw_hosts(self, drawn: list[HostShape]) -> None:
        place_of: dict[str, str] = {}
        macs = {nic.mac for nics in self._hosts.values() for nic in nics}
        macs |= {
            one.mac for host in drawn for nic in host.nics for one in (nic, *(nic.ports or ())) if one.mac is not None
        }
        for index, host in enumerate(drawn):
            path = f"hosts[{index}]"
            if host.id in place_of:
                self._refuse(f"{path}.id", f"{host.id} is drawn twice, at {place_of[host.id]} too{_ANOTHER_ID}")
                continue
            place_of[host.id] = path
            if host.id in self._switches:
                self._refuse(f"{path}.id", f"{host.id} is the id of a switch; choose another")
            self._hosts[host.id] = []
            for i, shape in enumerate(host.nics):
                for nic, place in nic_ports(host, shape, macs, f"{path}.nics[{i}]"):
                    self._nic_place[id(nic)] = place
                    self._check_leaf(nic, place)
                    self._hosts[host.id].append(nic)

    def _check_leaf(self, nic: Nic, path: str) -> None:
        if not self._known_switch(nic.port.switch, f"{path}.port"):
            return
        role = self._switches[nic.port.switch].role
        if role is not Role.LEAF:
            self._refuse(f"{path}.port", f"{nic.port.switch} has the role {role}; a NIC is plugged into a leaf")

    def _turn_cables(self) -> None:
        """Check the cables and NICs of generated switches that the file lists with another role."""
        for key, cable in self._cables.items():
            lower, upper = self._switches[cable.lower.switch], self._switches[cable.upper.switch]
            if lower.role.tier == upper.role.tier:
                changed = self._roles_changed.get(lower.id) or self._roles_changed.get(upper.id) or ""
                self._refuse_role(changed, f"makes the link {cable.id} join two switches of one tier")
            elif lower.role.tier > upper.role.tier:
                self._cables[key] = replace(cable, lower=cable.upper, upper=cable.lower)
        for nics in self._hosts.values():
            for nic in nics:
                role = self._switches[nic.port.switch].role if nic.port.switch in self._roles_changed else Role.LEAF
                if role is not Role.LEAF and id(nic) not in self._nic_place:
                    changed = self._roles_changed[nic.port.switch]
                    self._refuse_role(changed, f"leaves the NIC {nic.id} on a switch that is no leaf")

    def _refuse_role(self, place: str, text: str) -> None:
        """Report a role once, however many cables and NICs the switch has."""
        if all(problem.path != f"{place}.role" for problem in self.problems):
            self._refuse(f"{place}.role", f"{text}; draw it with the role that it was generated with")

    def _check_limits(self, parts: Parts) -> None:
        limits = (
            ("switches", len(parts.switches), MAX_SWITCHES, "switches"),
            ("links", len(parts.cables), MAX_CABLES, "switch-to-switch links"),
            ("hosts", len(parts.nics), MAX_NICS, "NICs"),
        )
        for path, count, limit, what in limits:
            if count > limit:
                self._refuse(path, f"the fabric has {count} {what}, at most {limit} are allowed")

    def _check_ports(self, parts: Parts) -> None:
        user_of: dict[PortRef, tuple[str, str]] = {}
        for cable in parts.cables:
            place = self._cable_place.get(_ports(cable.lower, cable.upper), "")
            for port in (cable.lower, cable.upper):
                self._use(user_of, port, f"the link {cable.id}", place)
        for nic in parts.nics:
            place = self._nic_place.get(id(nic), "")
            self._use(user_of, nic.port, f"the NIC {nic.id}", place and f"{place}.port")

    def _use(self, user_of: dict[PortRef, tuple[str, str]], port: PortRef, user: str, place: str) -> None:
        if port not in user_of:
            user_of[port] = (user, place)
            return
        other, other_place = user_of[port]
        conflict = f"the port {port} is used twice, by {other} ({other_place or 'generated'}) and {user}"
        self._refuse(place or other_place, f"{conflict} ({place or 'generated'}); use another port for one of them")

    def _check_names(self, parts: Parts) -> None:
        nics = [nic for nic in parts.nics if not nic.of or nic.id == port_id(nic.of, 0)]
        self._check_twice(nics, lambda nic: nic.rank, "id", lambda nic: f"the NIC id {nic.rank}")
        for nic in nics:
            if nic.rank in self._switches:
                place = self._nic_place.get(id(nic)) or self._switch_place.get(nic.rank, "switches")
                self._refuse(
                    f"{place.partition('.ports[')[0]}.id", f"{nic.rank} names a switch and a NIC; choose another"
                )
        for name, path in self._switch_place.items():
            if name in self._hosts and not any(id(nic) in self._nic_place for nic in self._hosts[name]):
                self._refuse(f"{path}.id", f"{name} is the id of a host; choose another")

    def _check_addresses(self, parts: Parts) -> None:
        self._check_twice(parts.nics, lambda nic: nic.ip, "ip", lambda nic: f"the address {ip_text(nic.ip)}")
        self._check_twice(parts.nics, lambda nic: nic.mac, "mac", lambda nic: f"the MAC address {mac_text(nic.mac)}")
        first: dict[int, Switch] = {}
        for switch in parts.switches:
            other = first.setdefault(switch.datapath_id, switch)
            if other is not switch:
                at = self._switch_place.get(switch.id) or self._switch_place[other.id]
                number = f"{switch.datapath_id:#x}"
                self._refuse(
                    f"{at}.datapath_id", f"{number} is given to {other.id} and {switch.id}; each needs its own"
                )

    def _check_twice(
        self, nics: Iterable[Nic], value: Callable[[Nic], Hashable], key: str, what: Callable[[Nic], str]
    ) -> None:
        first: dict[Hashable, Nic] = {}
        for nic in nics:
            other = first.setdefault(value(nic), nic)
            if other is not nic:
                places = [self._nic_place.get(id(one), "") for one in (other, nic)]
                places = [place.partition(".ports[")[0] if key == "id" else place for place in places]
                owners = [
                    f"{one.rank if key == 'id' else one.id} ({place or 'generated'})"
                    for one, place in zip((other, nic), places, strict=True)
                ]
                self._refuse(
                    f"{places[1] or places[0]}.{key}",
                    f"{what(nic)} is given twice, to {' and '.join(owners)}; choose another for one of them",
                )


def _ports(a: PortRef, b: PortRef) -> CablePorts:
    return (a, b) if a <= b else (b, a)
