"""A private Open vSwitch: its own database, daemon, sockets and logs in the lab's directory.

The datapath is the kernel's if the openvswitch module is available and not in use, otherwise Open vSwitch's userspace
datapath. For the latter the lab uses type `dummy`, which is the netdev datapath without tap devices for internal ports.
With type `netdev` every instance on a machine creates a tap named `ovs-netdev`: a second lab (or any other userspace
Open vSwitch) fails to start, and a killed daemon leaves its persistent taps behind.
"""

import os
import resource
import shutil
import socket
import subprocess
import time
from enum import StrEnum
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.locks import try_lock
from heddle.mininet_topos.host.priorities import SWITCH_NICENESS, set_niceness
from heddle.mininet_topos.host.registry import SYSTEM_DATAPATH_NOTE, LabEntry
from heddle.mininet_topos.host.sysctl import LAB_SETTINGS, MACHINE_STATE_DIRECTORY, hold_settings
from heddle.mininet_topos.switches.unixctl import Unixctl

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
START_TIMEOUT_S = 10.0
STATISTICS_MS = 3_600_000
KEEP_MEMORY = {
    "MALLOC_TOP_PAD_": str(16 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=127",
}
"""The switch daemon allocates and frees 32 buffers of the largest frame per port at every poll. With its defaults glibc
returns these 300 KB to the kernel each time and faults them in again, page by page: half of the daemon's processor
time. The small buffer descriptors fit the thread cache (tcache) if its count is large enough."""


class Datapath(StrEnum):
    """The datapath that a lab's switches run on."""

    AUTO = "auto"
    USERSPACE = "userspace"
    SYSTEM = "system"


class OpenVSwitch:
    """The Open vSwitch daemons of one lab; its registration ends them (their environment has the lab's tag)."""

    def __init__(self, entry: LabEntry, datapath: Datapath = Datapath.AUTO) -> None:
        """Prepare directories and environment; `start` runs the daemons."""
        self._entry = entry
        self.directory = entry.directory / "ovs"
        self.environment = {
            **entry.environment,
            "OVS_RUNDIR": str(self.directory),
            "OVS_DBDIR": str(self.directory),
            "OVS_LOGDIR": str(self.directory),
            **KEEP_MEMORY,
        }
        self._wanted = datapath
        self._system_lock: int | None = None
        self.datapath = Datapath.USERSPACE
        self.pid = 0
        self._control: Unixctl | None = None

    @property
    def datapath_type(self) -> str:
        """Return the `datapath_type` of this lab's bridges."""
        return "system" if self.datapath is Datapath.SYSTEM else "dummy"

    def start(self) -> None:
        """Start both daemons, with the socket buffers that a lab needs; raises PrerequisiteError on failure."""
        self.directory.mkdir()
        hold_settings(self._entry.directory, LAB_SETTINGS)
        self.datapath = self._choose()
        self._run("ovsdb-tool", "create", str(self.directory / "conf.db"), str(SCHEMA))
        self._daemon("ovsdb-server", str(self.directory / "conf.db"), f"--remote=punix:{self._database}")
        # The forwarding thread writes all interfaces' statistics to the database, where no program reads them.
        interval = f"other_config:stats-update-interval={STATISTICS_MS}"
        self.vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".", interval)
        self._daemon("ovs-vswitchd", f"unix:{self._database}", "--enable-dummy")
        self.pid = int(self._await_file("ovs-vswitchd.pid").read_text())
        _, max_files = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (max_files, max_files))
        set_niceness(self.pid, SWITCH_NICENESS)
        self._control = Unixctl(self._await_file(f"ovs-vswitchd.{self.pid}.ctl"))

    def stop(self) -> None:
        """Release the kernel's datapath for other labs; the lab's registration ends the daemons."""
        if self._control is not None:
            self._control.close()
        if self._system_lock is not None:
            os.close(self._system_lock)
            self._system_lock = None

    def vsctl(self, *arguments: str) -> str:
        """Run `ovs-vsctl` on this instance; raises PrerequisiteError with its message."""
        return self._run("ovs-vsctl", *arguments)

    def ofctl(self, *arguments: str, text: str = "") -> str:
        """Run `ovs-ofctl` on this instance with `text` as its input; raises PrerequisiteError with its message."""
        return self._run("ovs-ofctl", *arguments, text=text)

    def appctl(self, command: str, *arguments: str) -> str:
        """Run an `ovs-appctl` command of the switch daemon over its control socket, without a fork."""
        if self._control is None:
            raise PrerequisiteError("the lab's Open vSwitch is not running")
        return self._control.call(command, *arguments)

    def forget_flows(self) -> None:
        """Empty the userspace datapath's cache of flows; packets make it anew by the rules of the moment, in order.

        Rules that come and go leave cached flows that overlap. Open vSwitch 3.1.0 changes the actions of one of them by
        the key of a packet, which may match another: packets follow a rule that is gone while they keep coming. A cache
        without wildcards has no such flows, but packets with and without an ECN mark overtake each other there.
        """
        if self.datapath is Datapath.USERSPACE:
            self.appctl("revalidator/purge")

    @property
    def _database(self) -> Path:
        return self.directory / "db.sock"

    def _daemon(self, *command: str) -> None:
        name = Path(command[0]).name
        log = f"--log-file={self.directory / f'{name}.log'}"
        self._run(*command, "--pidfile", "--detach", "--no-chdir", log, "-vconsole:off", "-vsyslog:off")

    def _run(self, *command: str, text: str = "") -> str:
        done = subprocess.run(
            command, input=text, env=self.environment, text=True, capture_output=True, check=False, timeout=60
        )
        if done.returncode != 0:
            raise PrerequisiteError(f"{' '.join(command[:3])} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _await_file(self, name: str) -> Path:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self.directory / name).exists():
            if time.monotonic() > deadline:
                raise PrerequisiteError(f"Open vSwitch did not start: see {self.directory}")
            time.sleep(0.005)
        return self.directory / name

    def _choose(self) -> Datapath:
        if self._wanted is Datapath.USERSPACE:
            return Datapath.USERSPACE
        if _kernel_datapath_free() and self._take_system_lock():
            return Datapath.SYSTEM
        if self._wanted is Datapath.SYSTEM:
            raise PrerequisiteError(
                "the kernel's openvswitch datapath is missing or in use: choose the userspace datapath"
            )
        return Datapath.USERSPACE

    def _take_system_lock(self) -> bool:
        self._system_lock = try_lock(MACHINE_STATE_DIRECTORY / "system-datapath.lock")
        if self._system_lock is None:
            return False
        (self._entry.directory / SYSTEM_DATAPATH_NOTE).touch()
        return True


def require_open_vswitch() -> None:
    """Raise PrerequisiteError with the remedy if Open vSwitch is not installed."""
    missing = [
        tool for tool in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl") if shutil.which(tool) is None
    ]
    if missing or not SCHEMA.exists():
        raise PrerequisiteError("Open vSwitch is not installed: run `make setup`")


def _kernel_datapath_free() -> bool:
    """Return whether the kernel offers a datapath that no daemon uses."""
    if any(name == "ovs-system" for _, name in socket.if_nameindex()):
        return False
    if Path("/sys/module/openvswitch").exists():
        return True
    modprobe = shutil.which("modprobe")
    return modprobe is not None and subprocess.run([modprobe, "openvswitch"], capture_output=True).returncode == 0
