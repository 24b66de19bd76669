"""Network namespaces for tests, each held by a process that ends with the test's: nothing is left behind."""

import os
import subprocess
from collections.abc import Sequence

from tests.support.packets.nic_pair import wait_for

_HOLD = "read _"  # ends when its standard input is closed, so the namespaces end with this process


class Namespace:
    """A namespace with loopback up; `entrance` is the command prefix that enters it."""

    def __init__(self) -> None:
        mine = os.readlink("/proc/self/ns/net")
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", _HOLD], stdin=subprocess.PIPE, start_new_session=True
        )
        wait_for(lambda: self._holder.poll() is not None or os.readlink(f"/proc/{self.pid}/ns/net") != mine)
        self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """The process that holds the namespace."""
        return self._holder.pid

    @property
    def entrance(self) -> tuple[str, ...]:
        return ("nsenter", f"--net=/proc/{self.pid}/ns/net", "--")

    def run(self, *command: str, check: bool = True, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command and wait for it."""
        done = subprocess.run(
            [*self.entrance, *command], input=given, capture_output=True, text=True, timeout=60, check=False
        )
        assert not check or not done.returncode, f"{' '.join(command)}: {done.stderr or done.stdout}"
        return done

    def start(self, *command: str, **options: object) -> "subprocess.Popen[bytes]":
        """Start a command; the caller ends it."""
        return subprocess.Popen([*self.entrance, *command], **options)  # type: ignore[call-overload]

    def pings(self, address: str, *options: str, count: int = 3) -> bool:
        """Return whether at least one echo reply arrives."""
        return not self.run("ping", "-c", str(count), "-i", "0.1", "-W", "2", *options, address, check=False).returncode

    def close(self) -> None:
        """Remove the namespace; the kernel removes its interfaces, and their other ends elsewhere, some time later."""
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait(10)


def join(a: Namespace, a_name: str, b: Namespace, b_name: str, mtu_bytes: int = 1500) -> None:
    """Connect two namespaces by a veth pair without offloads: packets have checksums and are not aggregated."""
    _run("ip", "link", "add", a_name, "mtu", str(mtu_bytes), "netns", str(a.pid), "type", "veth",
         "peer", "name", b_name, "mtu", str(mtu_bytes), "netns", str(b.pid))  # fmt: skip
    for space, name in ((a, a_name), (b, b_name)):
        off = [word for feature in ("tx", "rx", "sg", "tso", "gso", "gro") for word in (feature, "off")]
        space.run("ethtool", "-K", name, *off)
        space.run("ip", "link", "set", name, "up")


def endpoint(host: Namespace, port: str, mac: str, addresses: Sequence[str], mtu_bytes: int = 1450) -> Namespace:
    """Make a virtual machine's namespace with eth0, whose other end is `port` on the host."""
    space = Namespace()
    try:
        join(host, port, space, "eth0", mtu_bytes)
        space.run("ip", "link", "set", "eth0", "address", mac)
        for address in addresses:
            space.run("ip", "addr", "add", address, "dev", "eth0", *(("nodad",) if ":" in address else ()))
    except BaseException:
        space.close()
        raise
    return space


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, f"{' '.join(command)}: {done.stderr}"
