"""Run a private Open vSwitch: database, daemon and bridges in a temporary directory.

The datapath is OVS's dummy (the userspace datapath with simulated ports): OpenFlow is complete, but no interface of the
machine is created, so that any number of instances run concurrently, without root. (Two daemons with the `netdev`
datapath cannot share a network namespace: both create the interface `ovs-netdev`.) Bridges are configured as in the
lab: secure, out of band, quick to reconnect.
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

from heddle.foundation.tls_files import TlsFiles

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
START_S = 10.0
STOP_S = 10.0


class PrivateOvs:
    """A running Open vSwitch; made by `private_ovs`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
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

    def set_ssl(self, files: TlsFiles) -> None:
        """Make `ssl:` controllers see this certificate. All bridges share it."""
        self.vsctl("set-ssl", str(files.key), str(files.certificate), str(files.ca))

    def set_port(self, port: str, *, up: bool) -> None:
        """Pull or plug the cable of a dummy port."""
        self.run("ovs-appctl", "netdev-dummy/set-admin-state", port, "up" if up else "down")

    def freeze(self) -> None:
        """Stop the daemon without closing its connections."""
        self._processes[-1].send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume a frozen daemon."""
        self._processes[-1].send_signal(signal.SIGCONT)

    def start(self) -> None:
        """Start database and daemon, as child processes that `stop` waits for."""
        database, socket = f"{self.directory}/conf.db", f"{self.directory}/db.sock"
        self.run("ovsdb-tool", "create", database, str(SCHEMA))
        self._spawn("ovsdb-server", database, f"--remote=punix:{socket}")
        _wait_for(Path(socket))
        self.vsctl("--no-wait", "init")
        self._spawn("ovs-vswitchd", f"unix:{socket}", "--enable-dummy")

    def stop(self) -> None:
        """End the daemon, then its database."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(self, *command: str) -> None:
        log = (self.directory / f"{command[0]}.out").open("wb")
        with log:
            started = subprocess.Popen(
                [*command, "--no-chdir", "--pidfile", "--log-file", "-vconsole:off"],
                env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._processes.append(started)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + START_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{path.name} did not appear within {START_S} s")
        time.sleep(0.01)


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
