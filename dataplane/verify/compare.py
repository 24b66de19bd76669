"""Compare the installed with the intended view of a gateway and report each path that differs, with its cause.

A *leak* is a path that the tables open but no intent allows; a *missing* path is intended but closed. Both are computed
on equivalence classes of addresses and packets: no rule or route of either view distinguishes members of a class.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from heddle.dataplane.verify.groups import Group, atoms, grouped
from heddle.dataplane.verify.traffic import Traffic, spans_of
from heddle.dataplane.verify.view import Route, Rule, Span, View, VpcView, family_of, shown, span_text

MAX_FINDINGS = 1_000
V4 = Span(0xFFFF << 32, 96)


@dataclass(frozen=True, slots=True)
class Finding:
    """A path on which the two views differ."""

    kind: str
    """"leak" or "missing"."""
    source: str
    target: str
    traffic: str
    cause: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.source} to {self.target}: {self.traffic}; {self.cause}"


@dataclass(slots=True)
class Names:
    """Names of VPCs and provider networks in findings."""

    vpcs: Mapping[int, str] = field(default_factory=dict)
    realms: tuple[str, ...] = ()

    def vpc(self, vni: int) -> str:
        """Return a VPC's name."""
        return f"vpc {self.vpcs[vni]}" if vni in self.vpcs else f"VNI {vni}, which is no vpc"

    def route(self, route: Route) -> str:
        """Return the destination of a route."""
        if route.kind == "vpc":
            return self.vpc(route.number)
        if route.kind == "network":
            return f"the provider's {self.realms[route.number]} network"
        if route.kind == "customer":
            return f"the customer on VLAN {route.number}"
        return {"internet": "the internet", "gateway": "the gateway"}.get(route.kind, "no destination")


class Comparison:
    """Comparison of two views of one gateway."""

    def __init__(self, installed: View, intended: View, names: Names) -> None:
        self._installed, self._intended, self._names = installed, intended, names
        self._traffic = Traffic([*installed.vpcs.values(), *intended.vpcs.values()])
        self.pairs = 0
        """Pairs of address groups compared."""
        self.open: dict[tuple[str, str], int] = {}
        """Number of open pairs of groups by pair of the four networks, as installed."""

    def findings(self) -> Iterator[Finding]:
        """Yield every path that differs."""
        for vni in sorted({*self._installed.vpcs, *self._intended.vpcs}):
            have, want = self._installed.vpcs.get(vni), self._intended.vpcs.get(vni)
            if have is None or want is None:
                name = self._names.vpc(vni)
                yield Finding("leak" if have else "missing", name, name, "everything", "the VNI is (not) served")
                continue
            yield from self._admission(have, want)
            yield from self._deliveries(have, want)
            yield from self._routes(have, want)
            yield from self._flows(have, want)
        yield from self._public()
        yield from self._customers()

    def _admission(self, have: VpcView, want: VpcView) -> Iterator[Finding]:
        """Compare the VTEPs that may send packets of the VNI, and their inner source addresses."""
        name = self._names.vpc(have.vni)
        for vtep in sorted(have.speakers ^ want.speakers):
            leak = vtep in have.speakers
            why = "the VTEP has no endpoint of it" if leak else "the VTEP is not in the table"
            yield Finding("leak" if leak else "missing", f"VTEP {shown(vtep | V4.first)}", name, "everything", why)
        for address in sorted(have.homes.keys() | want.homes.keys()):
            one, other = have.homes.get(address), want.homes.get(address)
            if one == other:
                continue
            if one is not None:
                at = f"VTEP {shown(one | V4.first)}"
                yield Finding(
                    "leak", f"{at} as {shown(address)}", name, "everything", "the endpoint is behind another VTEP"
                )
            if other is not None:
                at = f"VTEP {shown(other | V4.first)}"
                yield Finding("missing", f"{at} as {shown(address)}", name, "everything", "its VTEP is another one")
        for address in sorted(have.replying.keys() | want.replying.keys()):
            one_s, other_s = (view.replying.get(address, frozenset[int]()) for view in (have, want))
            for vtep in sorted(one_s ^ other_s):
                at = f"VTEP {shown(vtep | V4.first)} as {shown(address)}"
                kind, why = ("leak", "no back end") if vtep in one_s else ("missing", "a back end")
                yield Finding(kind, at, name, "replies", f"{why} of the virtual IP is there")

    def _deliveries(self, have: VpcView, want: VpcView) -> Iterator[Finding]:
        """Compare the VTEPs and MACs to which packets for endpoints are sent."""
        for address in sorted(have.deliveries.keys() | want.deliveries.keys()):
            one, other = have.deliveries.get(address), want.deliveries.get(address)
            if one == other:
                continue
            name = f"{self._names.vpc(have.vni)} to {shown(address)}"
            if one is not None:
                where = f"{self._names.vpc(one.vni)}, VTEP {shown(one.vtep | V4.first)}, MAC {one.mac:012x}"
                why = "no such endpoint" if other is None else "the endpoint is elsewhere"
                yield Finding("leak", name, where, "everything", why)
            else:
                yield Finding("missing", name, shown(address), "everything", "the endpoint is not in the table")

    def _routes(self, have: VpcView, want: VpcView) -> Iterator[Finding]:
        """Compare the routes of addresses that are no endpoint's."""
        for address in atoms([*have.routes, *want.routes]):
            one, other = have.route(address), want.route(address)
            if (one.kind, one.number) == (other.kind, other.number) or not (one.is_out or other.is_out):
                continue
            name, at = self._names.vpc(have.vni), f"from {shown(address)} on"
            if one.is_out:
                wanted = f"no intent allows it; intended is {self._names.route(other)}"
                yield Finding("leak", name, f"{self._names.route(one)}, {at}", "everything", f"{one.cause}: {wanted}")
            else:
                yield Finding("missing", name, f"{self._names.route(other)}, {at}", "everything", "no such route")

    def _flows(self, have: VpcView, want: VpcView) -> Iterator[Finding]:
        """Compare what rules allow to each VPC, provider network and customer, and to the internet."""
        routes: dict[tuple[str, int], list[int]] = {}
        marks = [
            Span(first, length)
            for _, first, length in spans_of(have.outward, want.outward, *have.border.values(), *want.border.values())
        ]
        for address in atoms([*have.routes, *want.routes, *marks]):
            route = have.route(address)
            if route.is_out:
                routes.setdefault((route.kind, route.number), []).append(address)
        yield from self._to_vpc(have, want, have.vni)
        for (kind, vni), _ in sorted(routes.items()):
            if kind == "vpc" and vni != have.vni:
                yield from self._to_vpc(have, want, vni)
        for (kind, number), addresses in sorted(routes.items()):
            if kind != "vpc" and have.homes:
                yield from self._to_outside(have, want, Route(kind, number), addresses)

    def _to_vpc(self, have: VpcView, want: VpcView, vni: int) -> Iterator[Finding]:
        there, meant = self._installed.vpcs.get(vni), self._intended.vpcs.get(vni)
        if there is None or meant is None:
            return
        default = vni == have.vni
        is_meant = default or any(route[:2] == ("vpc", vni) for route in want.routes.values())
        sources = grouped(have.homes.keys(), spans_of(there.inward, meant.inward))
        near = [a for a in there.deliveries if default or have.route(a)[:2] == ("vpc", vni)]
        targets = grouped(near, spans_of(have.outward, want.outward))
        into = _merged((self._both(there.inward, meant.inward, s.one, default), s) for s in sources)
        out = _merged((self._both(have.outward, want.outward, t.one, True), t) for t in targets)
        for ((_, in_actual, in_meant), source), ((_, out_actual, out_meant), target) in product(into, out):
            if family_of(source.one) == family_of(target.one):
                actual, wanted = in_actual & out_actual, in_meant & out_meant if is_meant else 0
                self._count(have.realm, there.realm, int(actual != 0))
                if actual != wanted:
                    yield from self._differs(have, there, source, target, actual, wanted, in_actual ^ in_meant)

    def _differs(
        self,
        have: VpcView,
        there: VpcView,
        source: Group,
        target: Group,
        actual: int,
        wanted: int,
        inward: int,
    ) -> Iterator[Finding]:
        name, to = self._names.vpc(have.vni), self._names.vpc(there.vni)
        for kind, classes in (("leak", actual & ~wanted), ("missing", wanted & ~actual)):
            if not classes:
                continue
            if inward & classes:
                cause = f"inward rules of {to}: {_decider(there.inward, source.one)}"
            elif actual & classes and not wanted and there.vni != have.vni:
                cause = "the two VPCs are not peered"
            else:
                cause = f"outward rules of {name}: {_decider(have.outward, target.one)}"
            yield Finding(
                kind, f"{name}, {_some(source)}", f"{to}, {_some(target)}", self._traffic.text(classes), cause
            )

    def _to_outside(self, have: VpcView, want: VpcView, route: Route, addresses: list[int]) -> Iterator[Finding]:
        """Compare paths to customers, provider networks and the internet: outward and border rules, and NAT."""
        name, to = self._names.vpc(have.vni), self._names.route(route)
        for address in addresses:
            if route.kind != "customer" and family_of(address) != 4:
                continue
            actual, wanted = self._leaves(have, route, address), self._leaves(want, route, address)
            if want.route(address)[:2] != route[:2]:
                continue  # reported by `_routes`
            if route.kind == "network" and actual:
                self._count(have.realm, route.number, 1)
            for kind, classes in (("leak", actual & ~wanted), ("missing", wanted & ~actual)):
                if classes:
                    lists = have.outward if route.kind != "network" else have.at_border(route.number)
                    place = "border" if route.kind == "network" else "outward"
                    cause = f"{place} rules of {name}: {_decider(lists, address)}"
                    target = f"{to}, from {shown(address)} on"
                    yield Finding(kind, name, target, self._traffic.text(classes), cause)

    def _leaves(self, vpc: VpcView, route: Route, address: int) -> int:
        """Return the packet classes that may leave a VPC by a route to an address."""
        found = self._traffic.allowed(vpc.outward, address, True)
        if route.kind == "customer":
            return found
        if route.kind == "network":
            found &= self._traffic.allowed(vpc.at_border(route.number), address, False)
        elif not (vpc.nat or vpc.floating):
            return 0
        return found & ~self._traffic.roce

    def _public(self) -> Iterator[Finding]:
        """Compare floating IPs, NAT addresses, and what may come in from the internet."""
        have, want = self._installed, self._intended
        for public in sorted(have.floating_in.keys() | want.floating_in.keys()):
            one, other = have.floating_in.get(public), want.floating_in.get(public)
            if one is not None and one[0] not in have.vpcs:
                one = None  # its VPC does not exist, so nothing is delivered
            if one != other:
                kind, (vni, endpoint) = ("leak", one) if one else ("missing", other or (0, 0))
                target = f"{self._names.vpc(vni)}, {shown(endpoint | V4.first)}"
                where = f"the internet by {shown(public | V4.first)}"
                yield Finding(kind, where, target, "everything", "floating IP")
        for public in sorted(have.nat_in ^ want.nat_in):
            kind, view = ("leak", have) if public in have.nat_in else ("missing", want)
            users = ", ".join(self._names.vpc(vni) for vni, vpc in sorted(view.vpcs.items()) if vpc.nat == public)
            where = f"{shown(public | V4.first)}" + (f" of {users}" if users else "")
            yield Finding(kind, "the internet", where, "everything", "NAT address")
        for vni in sorted(have.vpcs.keys() & want.vpcs.keys()):
            yield from self._from_internet(have.vpcs[vni], want.vpcs[vni])

    def _from_internet(self, have: VpcView, want: VpcView) -> Iterator[Finding]:
        name = self._names.vpc(have.vni)
        if (have.nat, have.floating) != (want.nat, want.floating):
            yield Finding(
                "leak", name, "the internet", "everything", "uses another public address than intended, or none"
            )
        if not (have.nat or have.floating):
            return
        marks = [Span(first, length) for family, first, length in spans_of(have.inward, want.inward) if family == 4]
        for address in atoms([V4, *marks]):
            if not V4.holds(address):
                continue
            actual, wanted = self._both(have.inward, want.inward, address, False)
            actual, wanted = actual & ~self._traffic.roce, wanted & ~self._traffic.roce
            for kind, classes in (("leak", actual & ~wanted), ("missing", wanted & ~actual)):
                if classes:
                    cause = f"inward rules of {name}: {_decider(have.inward, address)}"
                    source = f"the internet, from {shown(address)} on"
                    yield Finding(kind, source, name, self._traffic.text(classes), cause)

    def _customers(self) -> Iterator[Finding]:
        have, want = self._installed.customers, self._intended.customers
        for vlan, family in sorted(have.keys() | want.keys()):
            one, other = have.get((vlan, family)), want.get((vlan, family))
            if one != other:
                kind, (vni, prefix) = ("leak", one) if one else ("missing", other or (0, V4))
                source = f"the customer on VLAN {vlan}, {span_text(prefix)}"
                yield Finding(kind, source, self._names.vpc(vni), "everything", "direct connect")
                continue
            vni, prefix = one or (0, V4)
            there, meant = self._installed.vpcs.get(vni), self._intended.vpcs.get(vni)
            is_of_family = family_of(prefix.first) == family
            if is_of_family and there is not None and meant is not None and there.deliveries:
                yield from self._from_customer(vlan, prefix, there, meant)

    def _from_customer(self, vlan: int, prefix: Span, there: VpcView, meant: VpcView) -> Iterator[Finding]:
        name = self._names.vpc(there.vni)
        marks = [Span(first, length) for _, first, length in spans_of(there.inward, meant.inward)]
        for address in atoms([prefix, *marks]):
            if not prefix.holds(address):
                continue
            actual, wanted = self._both(there.inward, meant.inward, address, False)
            for kind, classes in (("leak", actual & ~wanted), ("missing", wanted & ~actual)):
                if classes:
                    cause = f"inward rules of {name}: {_decider(there.inward, address)}"
                    source = f"the customer on VLAN {vlan}, from {shown(address)} on"
                    yield Finding(kind, source, name, self._traffic.text(classes), cause)

    def _both(self, actual: tuple[Rule, ...], meant: tuple[Rule, ...], address: int, default: bool) -> tuple[int, int]:
        """Return the packet classes that rules allow to or from an address, as installed and as intended."""
        return self._traffic.allowed(actual, address, default), self._traffic.allowed(meant, address, default)

    def _count(self, source: int, target: int, pairs: int) -> None:
        self.pairs += 1
        if pairs:
            key = self._names.realms[source], self._names.realms[target]
            self.open[key] = self.open.get(key, 0) + pairs


def _merged(groups: Iterable[tuple[tuple[int, int], Group]]) -> list[tuple[tuple[int, int, int], Group]]:
    """Join groups of one family with equal packet classes; keys are (family, installed, intended)."""
    found: dict[tuple[int, int, int], Group] = {}
    for (actual, meant), group in groups:
        key = family_of(group.one), actual, meant
        known = found.get(key)
        found[key] = Group(known.one, known.size + group.size) if known else group
    return list(found.items())


def _decider(rules: tuple[Rule, ...], address: int) -> str:
    """Return the rules that match an address, as text."""
    found = [
        f"row {i} ({'allow' if rule.allow else 'deny'} {span_text(rule.remote)})"
        for i, rule in enumerate(rules)
        if rule.matches(address)
    ]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "") or "no row matches"


def _some(group: Group) -> str:
    return shown(group.one) if group.size == 1 else f"{shown(group.one)} and {group.size - 1} more"
