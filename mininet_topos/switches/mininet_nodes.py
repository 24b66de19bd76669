"""Mininet node and link classes that start fast and allow several labs on one machine.

Mininet starts a shell per switch and forks for every interface and setting. Here a switch has no shell, a link is only
described, and `fabric_net` creates all of them in a few batches. Mininet's global clean-up and its system settings are
not used.
"""

import logging
import subprocess
from collections.abc import Sequence
from typing import Any

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.registry import LabEntry
from heddle.mininet_topos.switches.ovs import OpenVSwitch

_LOGGERS = logging.getLoggerClass()
try:
    from mininet.link import Intf, Link
    from mininet.net import Mininet
    from mininet.node import Node, OVSSwitch
except ImportError as missing:
    raise PrerequisiteError("Mininet is not installed: run `make setup`") from missing
finally:
    logging.setLoggerClass(_LOGGERS)  # Mininet's, for every logger made later, hides lines of level INFO

Mininet.inited = True  # otherwise the first network changes fourteen system settings permanently


class LabIntf(Intf):
    """An interface that `fabric_net` configures in a batch."""

    def config(self, **_params: Any) -> dict[str, Any]:
        """Leave the interface alone."""
        return {}


class LabLink(Link):
    """A veth pair that `fabric_net` creates in a batch."""

    @classmethod
    def makeIntfPair(cls, *_arguments: Any, **_params: Any) -> None:
        """Create nothing: `fabric_net` does."""


class LabHost(Node):
    """A host: a shell in a network namespace of its own, with the lab's tag in its environment."""

    @classmethod
    def setup(cls) -> None:
        """Do nothing: `require_lab_tools` has checked the prerequisites."""

    def __init__(self, name: str, entry: LabEntry, **params: Any) -> None:
        """Start the host's shell."""
        self._entry = entry
        super().__init__(name, **params)

    @property
    def entrance(self) -> list[str]:
        """Return the command prefix that runs a command in this host's network namespace.

        Not `mnexec -a`: it enters the host's mount namespace as well and with it the machine's root directory, where
        the commands of a chroot do not exist. A lab's host has only its network namespace to itself.
        """
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]

    def popen(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a command in this host, in a session of its own; the arguments are those of Mininet's `popen`."""
        return super().popen(*args, **{"mncmd": self.entrance, "start_new_session": True, **kwargs})

    def _popen(self, cmd: list[str], **params: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(cmd, **{"env": self._entry.environment, **params})


class LabSwitch(OVSSwitch):
    """A bridge of the lab's own Open vSwitch; `name` is the bridge's name, unique on the machine."""

    OVSVersion = "3.1"

    @classmethod
    def setup(cls) -> None:
        """Do nothing: `require_open_vswitch` has checked the prerequisites."""

    def __init__(self, name: str, bridge: str, ovs: OpenVSwitch, **params: Any) -> None:
        """Describe the bridge; `batchStartup` creates it."""
        self.ovs, self.fabric_id, self._ready = ovs, name, False
        super().__init__(bridge, failMode="secure", batch=True, **params)
        self._ready = True

    def startShell(self, mnopts: str | None = None) -> None:
        """Start no shell: a switch is in the root namespace, where `cmd` runs commands directly."""
        self.shell, self.waiting = None, False

    def cmd(self, *arguments: Any, **_params: Any) -> str:
        """Run a command in the root namespace with the environment of this lab's Open vSwitch."""
        if not self._ready:
            return ""
        command = " ".join(str(argument) for argument in arguments)
        done = subprocess.run(
            ["sh", "-c", command], env=self.ovs.environment, text=True, capture_output=True, check=False
        )
        return done.stdout + done.stderr

    def start(self, controllers: Sequence[Any]) -> None:
        """Do nothing: `batchStartup` creates the bridge, and controllers are connected later, all at once."""

    def bridge_commands(self) -> list[str]:
        """Return the `ovs-vsctl` arguments that create this bridge with the fabric's port numbers."""
        arguments = ["--", "add-br", self.name, "--", "set", "bridge", self.name, "fail_mode=secure"]
        arguments += [f"datapath_type={self.ovs.datapath_type}", "protocols=OpenFlow13"]
        arguments += [f"other_config:datapath-id={self.dpid}", f"other_config:dp-desc={self.fabric_id}"]
        arguments += ["other_config:disable-in-band=true"]
        for number, interface in self.intfs.items():
            if number:
                name = interface.name
                arguments += ["--", "add-port", self.name, name, "--", "set", "port", name, "qos=@noop"]
                arguments += ["--", "set", "interface", name, f"ofport_request={number}"]
        return arguments

    @classmethod
    def batchStartup(cls, switches: Sequence["LabSwitch"], run: Any = None) -> Sequence["LabSwitch"]:
        """Create the bridges of all switches in one transaction."""
        noop = ("--", "--id=@noop", "create", "qos", "type=linux-noop")  # otherwise Open vSwitch removes the shaping
        switches[0].ovs.vsctl(*noop, *(argument for switch in switches for argument in switch.bridge_commands()))
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence["LabSwitch"], run: Any = None) -> Sequence["LabSwitch"]:
        """Remove the bridges of all switches in one transaction."""
        arguments = (part for switch in switches for part in ("--", "--if-exists", "del-br", switch.name))
        switches[0].ovs.vsctl(*arguments)
        return switches


def new_mininet() -> Any:
    """Return an empty Mininet network that uses these classes."""
    return Mininet(controller=None, switch=LabSwitch, host=LabHost, link=LabLink, intf=LabIntf, build=False)
