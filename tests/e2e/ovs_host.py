"""A host whose VTEP is Open vSwitch in user space: its own daemons in its own namespace."""

import os
import signal
import tempfile
from ipaddress import IPv4Address
from pathlib import Path

from dataplane.vtep.openvswitch import OpenVSwitchVtep
from tests.e2e.namespaces import Namespace
from tests.e2e.nic_pair import wait_for

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class OvsHost:
    """The bridge `phy` holds the underlay's interface and address, the bridge `vpc` the endpoints."""

    def __init__(self, space: Namespace, vtep: IPv4Address, underlay: str) -> None:
        self.space, self.vtep = space, vtep
        self._folder = tempfile.TemporaryDirectory(prefix="hov")  # short: socket paths have a limit
        self.directory = Path(self._folder.name)
        self._environment = [f"OVS_{kind}DIR={self.directory}" for kind in ("RUN", "DB", "LOG")]
        database = self.directory / "conf.db"
        self._run("ovsdb-tool", "create", str(database), SCHEMA)
        detached = ("--detach", "--no-chdir", "--pidfile", "--log-file")
        self._run("ovsdb-server", str(database), f"--remote=p{self.database}", *detached)
        self.vsctl("--no-wait", "init")
        self._run("ovs-vswitchd", self.database, *detached)
        for bridge in ("phy", "vpc"):
            self.vsctl("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev")
        self.vsctl("set", "bridge", "vpc", "fail_mode=secure", "protocols=OpenFlow13,OpenFlow14")
        self.vsctl("add-port", "phy", underlay)
        space.run("ip", "addr", "add", f"{vtep}/24", "dev", "phy")
        space.run("ip", "link", "set", "phy", "up")
        space.run("ethtool", "-K", "phy", "tx", "off", check=False)

    @property
    def database(self) -> str:
        return f"unix:{self.directory}/db.sock"

    @property
    def entrance(self) -> tuple[str, ...]:
        return (*self.space.entrance, "env", *self._environment)

    def driver(self) -> OpenVSwitchVtep:
        return OpenVSwitchVtep(self.vtep, "vpc", self.entrance, self.database)

    def vsctl(self, *words: str) -> str:
        return self._run("ovs-vsctl", "--timeout=10", f"--db={self.database}", *words)

    def flows(self) -> list[str]:
        return self._run("ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", "vpc").splitlines()

    def close(self) -> None:
        """End the daemons and wait for them: their taps go with the namespace."""
        for name in ("ovs-vswitchd.pid", "ovsdb-server.pid"):
            pid = int((self.directory / name).read_text())
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]
        self._folder.cleanup()

    def _run(self, *command: str) -> str:
        return self.space.run("env", *self._environment, *command).stdout
