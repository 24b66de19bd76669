"""Driver for the kernel's VXLAN: one bridge `hb<vni>` and one VXLAN device `hx<vni>` per VPC, without learning.

Frames of endpoints are filtered where they arrive (`port_filters`), before the bridge. The VXLAN device answers their
requests for all neighbours, so none is flooded to other endpoints.

The installed state is read as iproute2's JSON, and only the difference to the desired state is written, in batches of
`ip`, `bridge` and `nft`; a restarted agent changes nothing. The agent owns these bridges and devices, and the table
`heddle` of nftables: it removes foreign ports, entries and rules from them. docs/adr/0016-netlink-by-iproute2.md has
the reasons for iproute2.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, ip_address
from typing import Any

from heddle.dataplane.vtep.bridge_ports import (
    attached,
    bridge_of,
    device_of,
    port_changes,
    ports_of,
    station_changes,
    stations_of,
)
from heddle.dataplane.vtep.desired import ANY_MAC, VXLAN_OVERHEAD_BYTES, Forward, HostState, NeighbourEntry, Spread
from heddle.dataplane.vtep.nexthops import Nexthops, nexthop_changes, nexthops_of, spread_line, spreads_of
from heddle.dataplane.vtep.port_filters import Chains, filter_changes, filters, listed
from heddle.foundation.address import mac_text

VXLAN_PORT = 4789
TIMEOUT_S = 30.0
NFT_LIST, NFT_BATCH = ("nft", "-s", "list", "ruleset", "netdev"), ("nft", "-f", "-")


class VtepError(Exception):
    """The host refused a command; the message has the command and the reason."""


class LinuxVtep:
    """The VXLAN devices of one network namespace: this process's, or the one that `entrance` enters."""

    def __init__(self, vtep: IPv4Address, underlay_mtu_bytes: int = 1500, entrance: Sequence[str] = ()) -> None:
        """Prepare a driver; `entrance` is a command prefix that enters the host's namespace, such as `nsenter …`."""
        self._vtep, self._mtu_bytes, self._entrance = vtep, underlay_mtu_bytes - VXLAN_OVERHEAD_BYTES, tuple(entrance)
        self._read_back: tuple[Chains, Chains | None] | None = None
        """The chains written last, and as nft listed them afterwards."""

    def check(self) -> None:
        """Raise VtepError if this host or its kernel cannot be a VTEP."""
        self.installed()
        self._filters()

    def installed(self) -> HostState:
        """Return the installed state, without local endpoints. Raises VtepError."""
        vnis = set()
        for link in self._json("ip", "-j", "-d", "link", "show", "type", "vxlan"):
            data = link.get("linkinfo", {}).get("info_data", {})
            if link.get("ifname") == device_of(data.get("id", -1)) and data.get("local") == str(self._vtep):
                vnis.add(int(data["id"]))
        forwards: set[Forward] = set()
        neighbours: set[NeighbourEntry] = set()
        spreads: set[Spread] = set()
        nexthops = self._nexthops()
        for vni in vnis:
            entries = self._json("bridge", "-j", "fdb", "show", "dev", device_of(vni))
            forwards |= _forwards(vni, entries)
            spreads |= spreads_of(nexthops, vni, entries)
            neighbours |= _neighbours(vni, self._json("ip", "-j", "neigh", "show", "dev", device_of(vni)))
        return HostState(
            vnis=frozenset(vnis),
            forwards=frozenset(forwards),
            neighbours=frozenset(neighbours),
            spreads=frozenset(spreads),
        )

    def apply(self, wanted: HostState, ports: Mapping[tuple[int, int], str]) -> int:
        """Install the desired state; return the number of changes.

        New entries are added before old ones are removed. An interface that does not exist yet is attached by a later
        call. Raises VtepError; a repeated call continues where it stopped.

        Args:
            wanted: desired state.
            ports: interfaces of local endpoints by (VNI, MAC).
        """
        have, links = self.installed(), ports_of(self._json("ip", "-j", "-d", "link", "show"))
        stations = stations_of(self._json("bridge", "-j", "fdb", "show"))
        present = {key: name for key, name in ports.items() if name in links}
        tunnels, forwards = changes(have, wanted, self._vtep, self._mtu_bytes)
        groups, old_groups = nexthop_changes(self._nexthops(), wanted.spreads)
        moves = port_changes(links, wanted, ports)
        forwards += station_changes(stations, attached(wanted, present), wanted.vnis)
        chains = filters(wanted, present)
        admits, removals = self._filter_changes(chains)
        late = [line for line in tunnels if line.startswith(("neigh del", "link del"))]
        self._batch("ip", [*(line for line in tunnels if line not in late), *groups])
        self._write(NFT_BATCH, admits)
        self._batch("ip", moves)
        self._batch("bridge", forwards)
        self._write(NFT_BATCH, removals)
        self._batch("ip", [*late, *old_groups])
        if admits or removals:
            self._read_back = chains, self._filters()
        return sum(map(len, (tunnels, groups, old_groups, forwards, moves, admits, removals)))

    def links(self) -> list[dict[str, Any]]:
        """Return the present interfaces in the form of `ip -j link show`; raises VtepError."""
        return self._json("ip", "-j", "link", "show")

    def _nexthops(self) -> Nexthops:
        return nexthops_of(self._json("ip", "-j", "nexthop", "show"))

    def _json(self, *command: str) -> list[dict[str, Any]]:
        text = self._run(command, "")
        found: list[dict[str, Any]] = json.loads(text) if text.strip() else []
        return [row for row in found if row]  # iproute2 prints empty objects for filtered rows

    def _filter_changes(self, chains: Chains) -> tuple[list[str], list[str]]:
        """Return the lines for nft. A version that lists rules in another form is compared with its own listing."""
        have = self._filters()
        return ([], []) if (chains, have) == self._read_back else filter_changes(have, chains)

    def _filters(self) -> dict[str, tuple[str, ...]] | None:
        return listed(self._run(NFT_LIST, ""))

    def _batch(self, tool: str, lines: Iterable[str]) -> None:
        self._write((tool, "-batch", "-"), lines)

    def _write(self, command: Sequence[str], lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if text:
            self._run(command, text)

    def _run(self, command: Sequence[str], text: str) -> str:
        words = [*self._entrance, *command]
        try:
            done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except FileNotFoundError:
            raise VtepError(f"{command[0]} is not installed on this host") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VtepError(f"{' '.join(command)}: {error}") from None
        if done.returncode:
            reason = (done.stderr.strip() or "no reason given").splitlines()[0]
            raise VtepError(f"{' '.join(command)}: {reason}")
        return done.stdout


def changes(have: HostState, want: HostState, vtep: IPv4Address, mtu_bytes: int) -> tuple[list[str], list[str]]:
    """Return the lines for `ip -batch` and for `bridge -batch` that turn one state into the other."""
    links = [line for vni in sorted(want.vnis - have.vnis) for line in _new_tunnel(vni, vtep, mtu_bytes)]
    gone = have.vnis - want.vnis
    links += [f"link del dev {name}" for vni in sorted(gone) for name in (device_of(vni), bridge_of(vni))]
    installed = {(n.vni, n.ip) for n in have.neighbours}
    for new in sorted(want.neighbours - have.neighbours, key=str):
        links.append(f"neigh replace {new.ip} lladdr {mac_text(new.mac)} dev {device_of(new.vni)} nud permanent")
    kept = {(n.vni, n.ip) for n in want.neighbours}
    links += [
        f"neigh del {ip} dev {device_of(vni)}" for vni, ip in sorted(installed - kept, key=str) if vni not in gone
    ]
    return links, _bridge_lines(have, want, gone)


def _bridge_lines(have: HostState, want: HostState, gone: frozenset[int]) -> list[str]:
    lines = []
    for new in sorted(want.forwards - have.forwards):
        how = "append" if new.mac == ANY_MAC else "replace"  # the kernel cannot replace an all-zero entry
        lines.append(f"fdb {how} {mac_text(new.mac)} dev {device_of(new.vni)} dst {new.vtep} self permanent")
    lines += [spread_line(vni) for vni in sorted({s.vni for s in want.spreads} - {s.vni for s in have.spreads})]
    kept = {(f.vni, f.mac) for f in want.forwards}
    for old in sorted(have.forwards - want.forwards):
        replaced = (old.vni, old.mac) in kept and old.mac != ANY_MAC
        if old.vni not in gone and not replaced:
            lines.append(f"fdb del {mac_text(old.mac)} dev {device_of(old.vni)} dst {old.vtep} self")
    return lines


def _new_tunnel(vni: int, vtep: IPv4Address, mtu_bytes: int) -> list[str]:
    bridge, device = bridge_of(vni), device_of(vni)
    return [
        f"link add {bridge} mtu {mtu_bytes} type bridge mcast_snooping 0",
        f"link add {device} mtu {mtu_bytes} type vxlan id {vni} local {vtep} dstport {VXLAN_PORT} nolearning proxy",
        *(f"link set dev {name} addrgenmode none" for name in (bridge, device)),  # no link-local addresses
        f"link set dev {device} master {bridge} up",
        f"link set dev {bridge} up",
    ]


def _forwards(vni: int, rows: Iterable[Mapping[str, Any]]) -> set[Forward]:
    return {Forward(vni, _mac(row["mac"]), IPv4Address(row["dst"])) for row in rows if "dst" in row}


def _neighbours(vni: int, rows: Iterable[Mapping[str, Any]]) -> set[NeighbourEntry]:
    return {
        NeighbourEntry(vni, ip_address(row["dst"]), _mac(row["lladdr"]))
        for row in rows
        if "lladdr" in row and "PERMANENT" in row.get("state", ())
    }


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)
