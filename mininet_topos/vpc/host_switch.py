"""Open vSwitch of one lab host: its own daemons in the host's network namespace, with the userspace datapath.

Two bridges: `phy` has the underlay's interface and the VTEP's address, so that Open vSwitch resolves routes to other
VTEPs; `vpc` has the endpoints and is programmed by a VTEP agent. The datapath is `netdev`, because `phy` needs an
interface of the namespace; its tap devices disappear with the namespace. The kernel receives the same frames, so
`arp_ignore` and `rp_filter` are set: otherwise it replies to ARP for the VTEP's address with the MAC of the interface
below `phy`, and to VXLAN packets with ICMP port unreachable.
"""

import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Interface
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.switches.ovs import SCHEMA

BRIDGE, UNDERLAY_BRIDGE = "vpc", "phy"
READY_S = 20.0


class HostSwitch:
    """Open vSwitch of a host; the daemons end by `stop`, or with all processes that carry the lab's environment."""

    def __init__(self, entrance: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        """Prepare the switch.

        Args:
            entrance: command prefix that enters the host's namespace.
            directory: existing directory, with a path short enough for Unix sockets.
            environment: of the daemons.
        """
        self._entrance, self.directory = tuple(entrance), directory
        self.environment = {**environment, **{f"OVS_{kind}DIR": str(directory) for kind in ("RUN", "DB", "LOG")}}

    def start(self, underlay: str, vtep: IPv4Interface, endpoints: Sequence[str] = ()) -> None:
        """Start the daemons with both bridges, and move the VTEP's address to `phy`; raises PrerequisiteError."""
        self.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.rp_filter=1")
        self.run("sysctl", "-qw", *(f"net.ipv6.conf.{name}.disable_ipv6=1" for name in (underlay, *endpoints)))
        database = self.directory / "conf.db"
        self.run("ovsdb-tool", "create", str(database), str(SCHEMA))
        detached = ("--detach", "--no-chdir", "--pidfile", "--log-file", "-vconsole:off", "-vsyslog:off")
        self.run("ovsdb-server", str(database), f"--remote=p{self.database}", *detached)
        self.vsctl("--no-wait", "init")
        self.run("ovs-vswitchd", self.database, *detached)
        words: list[str] = []
        for bridge in (UNDERLAY_BRIDGE, BRIDGE):
            words += ["--", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev"]
        words += ["--", "set", "bridge", BRIDGE, "fail_mode=secure", "protocols=OpenFlow13,OpenFlow14"]
        self.vsctl(*words[1:], "--", "add-port", UNDERLAY_BRIDGE, underlay)
        self.run("ip", "addr", "flush", "dev", underlay)
        self.run("ip", "addr", "add", str(vtep), "dev", UNDERLAY_BRIDGE)
        self.run("ip", "link", "set", UNDERLAY_BRIDGE, "up")
        self.run("ethtool", "-K", UNDERLAY_BRIDGE, "tx", "off")

    @property
    def database(self) -> str:
        """Return the database's address for ovs-vsctl's --db."""
        return f"unix:{self.directory}/db.sock"

    @property
    def entrance(self) -> tuple[str, ...]:
        """Return the prefix of a command that uses this Open vSwitch."""
        return (*self._entrance, "env", *(f"OVS_{kind}DIR={self.directory}" for kind in ("RUN", "DB", "LOG")))

    def vsctl(self, *words: str) -> str:
        """Run `ovs-vsctl` on it; raises PrerequisiteError with its message."""
        return self.run("ovs-vsctl", "--timeout=10", f"--db={self.database}", *words)

    def flows(self) -> list[str]:
        """Return the flows of the bridge `vpc`."""
        return self.run("ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", BRIDGE).splitlines()

    def stop(self) -> None:
        """End the daemons and wait for them."""
        for name in ("ovs-vswitchd", "ovsdb-server"):
            pidfile = self.directory / f"{name}.pid"
            if pidfile.exists():
                pid = int(pidfile.read_text())
                self.run("kill", str(pid))
                _await_end(pid)

    def run(self, *command: str) -> str:
        """Run a command in the host with this Open vSwitch's environment; raises PrerequisiteError."""
        words = [*self._entrance, *command]
        done = subprocess.run(words, env=self.environment, text=True, capture_output=True, timeout=60, check=False)
        if done.returncode:
            reason = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
            raise PrerequisiteError(f"{' '.join(command[:3])}: {reason.splitlines()[-1]}")
        return done.stdout


def _await_end(pid: int) -> None:
    """Wait until a daemon has ended, even if its adoptive parent never reaps it."""
    with suppress(ProcessLookupError):
        ended = os.pidfd_open(pid)
        try:
            select.select([ended], [], [], READY_S)
        finally:
            os.close(ended)
