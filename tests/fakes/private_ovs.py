"""An Open vSwitch of one's own: its database, daemon and bridges live in a short-lived directory.

The datapath is OVS's dummy (the userspace datapath with pretended ports): everything that OpenFlow says and
does is the real thing, but no interface of the machine is made, so any number of instances run side by side
and none needs root. (Two daemons with the `netdev` datapath in one network namespace refuse each other: both want
the interface `ovs-netdev`.) Bridges are set up as the lab must: secure, out of band, quick to reconnect.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
START_S = 10.0


class PrivateOvs:
    """A running Open vSwitch; made by `private_ovs`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._environment = os.environ | {
            "OVS_RUNDIR": str(directory),
            "OVS_LOGDIR": str(directory),
            "OVS_DBDIR": str(directory),
        }

    def run(self, *command: str, given: str | None = None) -> str:
        """Run one OVS tool to its end and return what it printed."""
        done = subprocess.run(
            command, env=self._environment, input=given, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def vsctl(self, *arguments: str) -> str:
        """Run ovs-vsctl against this instance."""
        return self.run("ovs-vsctl", "--timeout=10", f"--db=unix:{self.directory}/db.sock", *arguments)

    def ofctl(self, *arguments: str, given: str | None = None) -> str:
        """Run ovs-ofctl in OpenFlow 1.3 against this instance."""
        return self.run("ovs-ofctl", "-O", "OpenFlow13", *arguments, given=given)

    def add_bridge(self, name: str, *, datapath_id: int, ports: tuple[str, ...] = (), controller: str = "") -> None:
        """Make a bridge with dummy ports 1, 2, …; `controller` is such as tcp:127.0.0.1:6653."""
        bridge = ["fail_mode=secure", "datapath_type=dummy", "protocols=OpenFlow13"]
        bridge += [f"other-config:datapath-id={datapath_id:016x}", "other-config:disable-in-band=true"]
        command = ["add-br", name, "--", "set", "bridge", name, *bridge]
        for number, port in enumerate(ports, 1):
            command += ["--", "add-port", name, port]
            command += ["--", "set", "interface", port, "type=dummy", f"ofport_request={number}"]
        self.vsctl(*command)
        if controller:
            self.vsctl(
                "set-controller", name, controller, "--", "set", "controller", name, "max_backoff=1000",
                "connection-mode=out-of-band",
            )  # fmt: skip

    def set_port(self, port: str, *, up: bool) -> None:
        """Pull or plug the cable of a dummy port."""
        self.run("ovs-appctl", "netdev-dummy/set-admin-state", port, "up" if up else "down")

    def freeze(self) -> None:
        """Stop the daemon without closing its connections."""
        os.kill(self._pid("ovs-vswitchd"), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen daemon go on."""
        os.kill(self._pid("ovs-vswitchd"), signal.SIGCONT)

    def start(self) -> None:
        """Start database and daemon."""
        database = f"{self.directory}/conf.db"
        quiet = ("--pidfile", "--detach", "--no-chdir", "--log-file", "-vconsole:off")
        self.run("ovsdb-tool", "create", database, str(SCHEMA))
        self.run("ovsdb-server", database, f"--remote=punix:{self.directory}/db.sock", *quiet)
        self.vsctl("--no-wait", "init")
        self.run("ovs-vswitchd", f"unix:{self.directory}/db.sock", "--enable-dummy", *quiet)

    def stop(self) -> None:
        """End what was started, by its process ids."""
        for daemon in ("ovs-vswitchd", "ovsdb-server"):
            pid_file = self.directory / f"{daemon}.pid"
            if pid_file.exists():
                _end(int(pid_file.read_text()))

    def _pid(self, daemon: str) -> int:
        return int((self.directory / f"{daemon}.pid").read_text())


def _end(pid: int) -> None:
    """End a daemon, by force where it does not go."""
    for sign in (signal.SIGCONT, signal.SIGTERM):
        if not _signalled(pid, sign):
            return
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if not _signalled(pid, 0):
            return
        time.sleep(0.01)
    _signalled(pid, signal.SIGKILL)


def _signalled(pid: int, sign: int) -> bool:
    try:
        os.kill(pid, sign)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def private_ovs() -> Iterator[PrivateOvs]:
    """Run an Open vSwitch while the context lasts. The directory's name is short: socket paths have 107 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="ovs-"))
    ovs = PrivateOvs(directory)
    try:
        ovs.start()
        yield ovs
    finally:
        ovs.stop()
        shutil.rmtree(directory, ignore_errors=True)
