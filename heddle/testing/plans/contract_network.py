"""A fabric file as sets and dictionaries, as the contract has it; nothing is imported from what is checked."""

from fractions import Fraction
from typing import Any

from heddle.testing.plans import contract_fabric, contract_planes

TIER = {"leaf": 0, "agg": 1, "spine": 2, "core": 2}


class Network:
    """A fabric file as sets and dictionaries: directed links with their ends and capacity."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.role, self.cables, self.nics = {}, {}, {}
        if "generate" in data:
            self._generate(dict(data["generate"]))
        for switch in data.get("switches", []):
            self.role[switch["id"]] = switch["role"]
        for link in data.get("links", []):
            self.cables[frozenset((link["a"], link["b"]))] = bps(link.get("gbps", 100))
        for host in data.get("hosts", []):
            for name in [name for name, nic in self.nics.items() if nic["host"] == host["id"]]:
                del self.nics[name]
            for nic in host["nics"]:
                self._plug(host["id"], nic)
        planes = contract_planes.planes_of(self.role, self.cables)
        self.ports = {}
        for name, nic in self.nics.items():
            nic.setdefault("plane", planes[switch_of(nic["port"])])
            self.ports.setdefault(nic.get("of", name), []).append(name)
        self._draw_links()
        self._fail(data.get("failed", []))

    def _plug(self, host, nic):
        """Add the ports of a NIC, each under a name of its own where it lists them."""
        several = "ports" in nic
        for number, port in enumerate(nic["ports"] if several else [nic]):
            found = {"host": host, "port": port["port"], "bps": bps(port.get("gbps", 100))}
            found |= {"of": nic["id"]} if several else {}
            found |= {"paths": nic.get("paths_per_flow", 1)}
            found |= {"plane": port["plane"]} if "plane" in port else {}
            self.nics[f"{nic['id']}/p{number}" if several else nic["id"]] = found

    def _generate(self, shape):
        kind, gbps = shape.pop("kind"), shape.pop("gbps", 100)
        uplink = shape.pop("uplink_gbps", gbps)
        if kind != "clos3":
            shape.pop("pods", None), shape.pop("aggs_per_pod", None)
        planes, paths = shape.pop("planes", 1), shape.pop("paths_per_flow", 1)
        switches, cables, nics = contract_planes.generated(getattr(contract_fabric, kind)(**shape), planes)
        self.role = {name: role for name, (role, _) in switches.items()}
        self.cables = {frozenset(ends): bps(uplink) for ends in cables}
        kept = ("host", "port", "of", "plane")
        self.nics = {
            name: {key: nic[key] for key in kept if key in nic} | {"bps": bps(gbps), "paths": paths}
            for name, nic in nics.items()
        }

    def _draw_links(self):
        self.capacity, self.ends = {}, {}
        for cable, rate in self.cables.items():
            low, high = sorted(cable, key=lambda port: TIER[self.role[switch_of(port)]])
            for a, b in ((low, high), (high, low)):
                self.capacity[f"{a}>{b}"], self.ends[f"{a}>{b}"] = rate, (switch_of(a), switch_of(b))
        for name, nic in self.nics.items():
            for link, ends in (
                (f"{name}>{nic['port']}", (name, switch_of(nic["port"]))),
                (f"{nic['port']}>{name}", (switch_of(nic["port"]), name)),
            ):
                self.capacity[link], self.ends[link] = nic["bps"], ends

    def _fail(self, failed):
        self.dead = set()
        for name in failed:
            if ">" in name:
                a, b = name.split(">")
                self.dead |= {f"{a}>{b}", f"{b}>{a}"}
            else:
                self.dead |= {link for link, ends in self.ends.items() if name in ends}
        self.switch_links = [link for link, ends in self.ends.items() if all(end in self.role for end in ends)]
        self.alive = [link for link in self.switch_links if link not in self.dead]

    def rises(self, link):
        """Return whether a link between switches goes to a higher tier."""
        a, b = self.ends[link]
        return TIER[self.role[a]] < TIER[self.role[b]]

    def host(self, rank):
        return self.nics[self.ports[rank][0]]["host"]

    def leaf(self, nic):
        return switch_of(self.nics[nic]["port"])

    def pods(self):
        """Return the pod of each switch below the top tier: its component without that tier."""
        beside = {name: set() for name, role in self.role.items() if TIER[role] < 2}
        for link in self.switch_links:
            one, other = self.ends[link]
            if one in beside and other in beside:
                beside[one].add(other)  # the link back has the other direction
        found = {}
        for number, first in enumerate(beside):
            reached = [] if first in found else [first]
            while reached:
                name = reached.pop()
                found[name] = number
                reached += [other for other in beside[name] if other not in found]
        return found


def bps(gbps):
    return round(Fraction(str(gbps)) * 10**9)


def switch_of(port):
    return port.rsplit(":", 1)[0]
