"""Open vSwitch as device under test, forwarding in user space, with daemons of its own.

One bridge has the egress port and the VTEP's address, the other one encapsulates received frames.
"""

import os
import select
import shutil
import signal
import tempfile
from pathlib import Path

from heddle.benchmarks.gateway.wire.course import EGRESS, EGRESS_IP, INGRESS, SINK_IP, SINK_MAC, Course, pinned
from heddle.benchmarks.gateway.wire.drain import Accounting

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
OUTER, INNER, TUNNEL, VNI = "phy", "vpc", "vx", 5
STOP_TIMEOUT_S = 10.0


def is_installed() -> bool:
    return SCHEMA.exists() and all(map(shutil.which, ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl")))


class OpenVSwitch:
    def __init__(self, course: Course, cpu: int) -> None:
        """Start the daemons with all threads on one core; raises RuntimeError with their message."""
        self._course, self._cpu = course, cpu
        self._folder = tempfile.TemporaryDirectory(prefix="hbo")  # short: the length of socket paths is limited
        self._directory = Path(self._folder.name)
        self._database = f"unix:{self._directory}/db.sock"
        try:
            self._start()
            self._configure()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return int((self._directory / "ovs-vswitchd.pid").read_text())

    def begin(self) -> None:
        """Do nothing: it always forwards."""

    def end(self) -> Accounting:
        raise RuntimeError("Open vSwitch does not count frames lost at its sockets")

    def _start(self) -> None:
        self._run("ovsdb-tool", "create", str(self._directory / "conf.db"), str(SCHEMA))
        detached = ("--detach", "--no-chdir", "--pidfile", "--log-file", "-vconsole:off")
        self._run("ovsdb-server", str(self._directory / "conf.db"), f"--remote=p{self._database}", *detached)
        self._vsctl("--no-wait", "init")
        self._run(*pinned(self._cpu, ("ovs-vswitchd", self._database, *detached)))

    def _configure(self) -> None:
        for bridge in (OUTER, INNER):
            self._vsctl("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev")
        self._vsctl("add-port", OUTER, EGRESS)
        self._vsctl("add-port", INNER, INGRESS)
        options = (f"options:remote_ip={SINK_IP}", f"options:key={VNI}")
        self._vsctl("add-port", INNER, TUNNEL, "--", "set", "interface", TUNNEL, "type=vxlan", *options)
        self._run("ovs-ofctl", "del-flows", INNER)
        self._run("ovs-ofctl", "add-flow", INNER, f"in_port={INGRESS},actions=output:{TUNNEL}")
        device = self._course.device
        device.run("ip", "addr", "flush", "dev", EGRESS)
        device.run("ip", "addr", "add", f"{EGRESS_IP}/24", "dev", OUTER)
        device.run("ip", "link", "set", OUTER, "mtu", str(self._course.mtu_bytes + 100), "up")
        self._run("ovs-appctl", "tnl/neigh/set", OUTER, SINK_IP, SINK_MAC)

    def _vsctl(self, *words: str) -> None:
        self._run("ovs-vsctl", "--timeout=10", f"--db={self._database}", *words)

    def _run(self, *words: str) -> None:
        places = [f"OVS_{kind}DIR={self._directory}" for kind in ("RUN", "DB", "LOG")]
        self._course.device.run("env", *places, *words)

    def close(self) -> None:
        """Stop the daemons and wait for them; their taps are deleted with the namespace."""
        for name in ("ovs-vswitchd.pid", "ovsdb-server.pid"):
            file = self._directory / name
            if file.exists():
                ended = os.pidfd_open(pid := int(file.read_text()))  # a daemon is not our child: wait by pidfd
                os.kill(pid, signal.SIGTERM)
                if not select.select([ended], [], [], STOP_TIMEOUT_S)[0]:
                    os.kill(pid, signal.SIGKILL)
                os.close(ended)
        self._folder.cleanup()
