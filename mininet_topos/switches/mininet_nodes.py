"""Mininet's switch, host and link, made for speed and for several labs side by side.

Mininet starts a shell per switch and forks for every interface and setting. Here a switch has no shell, a
link is only described, and `fabric_net` makes all of them in a few batches. Nothing of Mininet's global
clean-up or its system settings is used.
"""

import subprocess
from collections.abc import Sequence
from typing import Any

from controller.model.error import PrerequisiteError
from mininet_topos.host.registry import LabEntry
from mininet_topos.switches.ovs import OpenVSwitch

try:
    from mininet.link import Intf, Link
    from mininet.net import Mininet
    from mininet.node import Node, OVSSwitch
except ImportError as missing:
    raise PrerequisiteError("Mininet is not installed: run `make setup`") from missing

Mininet.inited = True  # else the first network changes fourteen system settings for good


class LabIntf(Intf):
    """An interface that is configured by the batches of `fabric_net`."""

    def config(self, **_params: Any) -> dict[str, Any]:
        """Leave the interface alone."""
        return {}


class LabLink(Link):
    """A veth pair that is made by the batch of `fabric_net`."""

    @classmethod
    def makeIntfPair(cls, *_arguments: Any, **_params: Any) -> None:
        """Make nothing now."""


class LabHost(Node):
    """A host: a shell in a network namespace of its own, marked as the lab's."""

    @classmethod
    def setup(cls) -> None:
        """Need nothing that `require_lab_tools` has not checked."""

    def __init__(self, name: str, entry: LabEntry, **params: Any) -> None:
        """Start the host's shell."""
        self._entry = entry
        super().__init__(name, **params)

    @property
    def entrance(self) -> list[str]:
        """Return the words before a command that is to run in this host.

        Not `mnexec -a`: that takes the command to the host's mount namespace as well, and with it to the machine's
        root directory, where a command of a chroot does not exist. The network is all that a lab's host has of its own.
        """
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]

    def popen(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a command in this host, in a session of its own; arguments are Mininet's."""
        return super().popen(*args, **{"mncmd": self.entrance, "start_new_session": True, **kwargs})

    def _popen(self, cmd: list[str], **params: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(cmd, **{"env": self._entry.environment, **params})


class LabSwitch(OVSSwitch):
    """An Open vSwitch bridge of the lab's own instance; `name` is the bridge's, unique on the machine."""

    OVSVersion = "3.1"

    @classmethod
    def setup(cls) -> None:
        """Need nothing that `require_open_vswitch` has not checked."""

    def __init__(self, name: str, bridge: str, ovs: OpenVSwitch, **params: Any) -> None:
        """Describe the bridge; `start` makes it."""
        self.ovs, self.fabric_id, self._ready = ovs, name, False
        super().__init__(bridge, failMode="secure", batch=True, **params)
        self._ready = True

    def startShell(self, mnopts: str | None = None) -> None:
        """Have no shell: a switch lives in the root namespace, where `cmd` can run anything."""
        self.shell, self.waiting = None, False

    def cmd(self, *arguments: Any, **_params: Any) -> str:
        """Run a command in the root namespace, with this lab's Open vSwitch as the one it talks to."""
        if not self._ready:
            return ""
        command = " ".join(str(argument) for argument in arguments)
        done = subprocess.run(
            ["sh", "-c", command], env=self.ovs.environment, text=True, capture_output=True, check=False
        )
        return done.stdout + done.stderr

    def start(self, controllers: Sequence[Any]) -> None:
        """Leave the making to `batchStartup`; controllers are connected later, all at once."""

    def bridge_commands(self) -> list[str]:
        """Return the words for `ovs-vsctl` that make this bridge with its ports at the fabric's numbers."""
        words = ["--", "add-br", self.name, "--", "set", "bridge", self.name, "fail_mode=secure"]
        words += [f"datapath_type={self.ovs.datapath_type}", "protocols=OpenFlow13"]
        words += [f"other_config:datapath-id={self.dpid}", f"other_config:dp-desc={self.fabric_id}"]
        words += ["other_config:disable-in-band=true"]
        for number, interface in self.intfs.items():
            if number:
                words += ["--", "add-port", self.name, interface.name, "--", "set", "port", interface.name, "qos=@ours"]
                words += ["--", "set", "interface", interface.name, f"ofport_request={number}"]
        return words

    @classmethod
    def batchStartup(cls, switches: Sequence["LabSwitch"], run: Any = None) -> Sequence["LabSwitch"]:
        """Make the bridges of all switches in one transaction."""
        hands_off = ("--", "--id=@ours", "create", "qos", "type=linux-noop")  # else it removes the links' shaping
        switches[0].ovs.vsctl(*hands_off, *(word for switch in switches for word in switch.bridge_commands()))
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence["LabSwitch"], run: Any = None) -> Sequence["LabSwitch"]:
        """Remove the bridges of all switches in one transaction."""
        words = (word for switch in switches for word in ("--", "--if-exists", "del-br", switch.name))
        switches[0].ovs.vsctl(*words)
        return switches


def new_mininet() -> Any:
    """Return an empty Mininet network of these kinds."""
    return Mininet(controller=None, switch=LabSwitch, host=LabHost, link=LabLink, intf=LabIntf, build=False)
