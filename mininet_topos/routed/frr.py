"""FRR in the routers of a lab: zebra and bgpd in the network namespace of each."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path

from heddle.controller.model.address import ip_text
from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.host.registry import LabEntry
from heddle.mininet_topos.routed.bgp import configurations
from heddle.mininet_topos.routed.routes import Routes

PROGRAMS = Path("/usr/lib/frr")
USER = "frr"
"""The user that the daemons run as (Debian)."""
HOME = Path("/etc/frr")
"""Where the daemons of each router see their own directory: they give up root, and could not enter the lab's."""
_AT_HOME = ["unshare", "--mount", "sh", "-c", f'mount --bind "$1" {HOME} && shift && exec "$@"', "sh"]
ZEBRA = "no zebra nexthop kernel enable\n"
"""Routes hold their next hops: after a flap zebra would keep groups that the kernel has pruned (FRR 13413)."""
CONVERGE_S = 60.0
POLL_S = 0.1


class FrrRouters:
    """The daemons of one lab; its registration ends them (their environment has the lab's tag)."""

    def __init__(self, fabric: Fabric, routes: Routes, entry: LabEntry, entrance: Callable[[str], list[str]]) -> None:
        """Describe them; `entrance` returns the words that run a command in the namespace of a router.

        Raises PrerequisiteError if FRR is not installed.
        """
        if not all((PROGRAMS / name).exists() for name in ("zebra", "bgpd")):
            raise PrerequisiteError("routers with BGP need FRR: run `apt-get install frr`, or choose another --routing")
        self._fabric, self._routes, self._entry, self._entrance = fabric, routes, entry, entrance

    def start(self) -> None:
        """Start the daemons of all routers and wait for their routes; raises PrerequisiteError."""
        for switch, text in configurations(self._fabric, self._routes.address_of).items():
            directory = self._entry.directory / "frr" / switch
            directory.mkdir(parents=True)
            (directory / "zebra.conf").write_text(ZEBRA)
            (directory / "bgpd.conf").write_text(text)
            shutil.chown(directory, USER)
            for name in ("zebra", "bgpd"):
                self._daemon(switch, directory, name)
        self.await_routes()

    def _daemon(self, switch: str, directory: Path, name: str) -> None:
        words = [
            PROGRAMS / name, "--daemon", "--config_file", HOME / f"{name}.conf", "--socket", HOME / "zserv.api",
            "--vty_socket", HOME, "--vty_port", "0", "--pid_file", HOME / f"{name}.pid",
            "--log", f"file:{HOME / f'{name}.log'}", "--log-level", "warnings",
        ]  # fmt: skip
        command = [*self._entrance(switch), *_AT_HOME, str(directory), *map(str, words)]
        done = subprocess.run(
            command, env=self._entry.environment, text=True, capture_output=True, check=False, timeout=CONVERGE_S
        )
        if done.returncode:
            raise PrerequisiteError(f"{switch}: {name} did not start: {done.stderr.strip() or done.stdout.strip()}")

    def await_routes(self, failed: Collection[str] = ()) -> None:
        """Wait until the kernel of every router has all next hops around failed cables; raises PrerequisiteError."""
        deadline_s = time.monotonic() + CONVERGE_S
        for switch in (each.id for each in self._fabric.switches):
            wanted = self._wanted(switch, failed)
            while (found := self._found(switch)) != wanted:
                if time.monotonic() > deadline_s:
                    missing = sorted(wanted.keys() - found.keys()) or sorted(wanted)
                    log = self._entry.directory / "frr" / switch
                    raise PrerequisiteError(
                        f"{switch} has no BGP route to {missing[0]} after {CONVERGE_S:g} s: see {log}"
                    )
                time.sleep(POLL_S)

    def _wanted(self, switch: str, failed: Collection[str]) -> dict[str, set[str]]:
        """Return by NIC's address the addresses of a router's next hops."""
        found: dict[str, set[str]] = {}
        for leaf, nics in self._fabric.nics_of_leaf.items():
            if leaf != switch and (hops := self._routes.hops(switch, leaf, failed)):
                found |= {ip_text(nic.ip): {ip_text(hop.address) for hop in hops} for nic in nics}
        return found

    def _found(self, switch: str) -> dict[str, set[str]]:
        words = [*self._entrance(switch), "ip", "-4", "-j", "route", "show", "proto", "bgp"]
        rows = json.loads(subprocess.run(words, text=True, capture_output=True, check=True).stdout or "[]")
        return {row["dst"]: {hop["gateway"] for hop in row.get("nexthops", [row])} for row in rows}
