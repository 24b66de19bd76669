"""A guest: a virtual machine with Debian's own kernel, whose NIC is that of a host of a lab.

    with running_guest(lab, nic, folder) as guest:
        guest.boot()
        guest.run("rdma link show")

QEMU emulates its processor (TCG), so that it needs no support of the host. Its first NIC, eth0, is a macvtap on the
host's NIC: it has that NIC's MAC and IPv4 address, and the host's own kernel hears nothing meanwhile. Its second, eth1,
reaches the loopback of this machine at MACHINE. Its root is that of this machine (`init.sh`).
"""

import base64
import os
import select
import shlex
import socket
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from heddle.controller.model.address import ip_text
from heddle.controller.model.fabric import Nic
from heddle.foundation.address import mac_text
from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.host.registry import entry_of
from heddle.mininet_topos.lab import Lab
from tests.support.guests.image import FOLDER, kernel_version, write_initramfs

MACHINE, GUEST = "192.168.76.2", "192.168.76.15"
"""The address of this machine's loopback for programs of a guest, and the guest's own beside it."""
BOOT_S, COMMAND_S = 300.0, 180.0
"""Emulation is slow, and beside other work slower."""
POLL_S = 1.0
MEMORY_MB = 1_500
MODULES = ("crc32_generic", "virtio_net", "rdma_rxe", "ib_uverbs", "rdma_ucm")
"""crc32_generic first: without it `rdma link add` fails with "No such file or directory"."""
MTU_BYTES = 1_500
DEVICE, GID_INDEX = "rxe0", 1
"""The RDMA device of a guest, and its GID for IPv4."""


class GuestError(Exception):
    """A script of a guest has failed, or the guest does not reply; with the last lines of its console."""


class Guest:
    """Runs scripts in a guest, one at a time, by its serial port."""

    def __init__(self, nic: Nic, channel: socket.socket, console: Path) -> None:
        self.nic = nic
        self._channel, self._console = channel, console

    def boot(self) -> None:
        """Wait until the guest runs and has soft RoCE; raises GuestError."""
        self.run("true", BOOT_S)
        self.run(_network_script(self.nic))

    def run(self, script: str, timeout_s: float = COMMAND_S) -> str:
        """Run a script of bash to its end and return what it prints; raises GuestError if its status is not 0."""
        self._channel.sendall(base64.b64encode(script.encode()) + b"\n")
        status, _, output = self._line(timeout_s).partition(b" ")
        text = base64.b64decode(output).decode(errors="replace")
        if status != b"0":
            raise GuestError(f"{self.nic.host}: {script}: status {status.decode()}: {text}{self._last_lines()}")
        return text

    def start(self, name: str, *command: str) -> None:
        """Start a command in the background; `output` has what it prints, `status` how it has ended."""
        line = shlex.join(command)
        self.run(f"rm -f {name}.status; ({line}; echo $? >{name}.status) >{name}.log 2>&1 </dev/null &")

    def output(self, name: str) -> str:
        """Return what a command that was started has printed so far."""
        return self.run(f"cat {name}.log")

    def wait(self, name: str, timeout_s: float = COMMAND_S) -> str:
        """Wait until a command has ended and return what it has printed; raises GuestError if its status is not 0."""
        self.until(f"[ -e {name}.status ]", timeout_s)
        return self.run(f"cat {name}.log; exit $(cat {name}.status)")

    def until(self, condition: str, timeout_s: float = COMMAND_S) -> None:
        """Wait until a command of bash succeeds; raises GuestError if it does not in time."""
        late = f"((SECONDS < {timeout_s:.0f})) || exit 1"
        self.run(f"until {condition}; do {late}; sleep {POLL_S}; done", timeout_s + COMMAND_S)

    def _line(self, timeout_s: float) -> bytes:
        received, deadline = b"", time.monotonic() + timeout_s
        while not received.endswith(b"\n"):
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._channel], [], [], left_s)[0]:
                raise GuestError(f"{self.nic.host}: no reply within {timeout_s:g} s{self._last_lines()}")
            chunk = self._channel.recv(1 << 16)
            if not chunk:
                raise GuestError(f"{self.nic.host}: the guest has ended{self._last_lines()}")
            received += chunk
        return received.rstrip(b"\n")

    def _last_lines(self) -> str:
        with suppress(OSError):
            return "\n" + "\n".join(self._console.read_text(errors="replace").splitlines()[-20:])
        return ""


@contextmanager
def running_guest(lab: Lab, nic: Nic, folder: Path, forwarded: Sequence[int] = ()) -> Iterator[Guest]:
    """Run a guest in place of the only NIC of a lab's host while the context lasts; `folder` gets its files.

    What connects to the `forwarded` TCP ports of this machine's loopback reaches the guest's.
    """
    console, initramfs = folder / f"{nic.host}.console", folder / f"{nic.host}.initramfs"
    write_initramfs(initramfs)
    own, theirs = socket.socketpair()
    with own, _macvtap(lab, nic, folder) as tap:
        with theirs:
            process = subprocess.Popen(
                _qemu(nic, initramfs, console, tap, theirs.fileno(), forwarded), env=entry_of(lab.id).environment,
                pass_fds=(tap, theirs.fileno()), stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        try:
            yield Guest(nic, own, console)
        finally:
            process.kill()
            process.wait()


def _qemu(nic: Nic, initramfs: Path, console: Path, tap: int, channel: int, forwarded: Sequence[int]) -> list[str]:
    inward = "".join(f",hostfwd=tcp:127.0.0.1:{port}-{GUEST}:{port}" for port in forwarded)
    return [
        *("setpriv", "--pdeathsig", "KILL", "nice", "-n", "10", "qemu-system-x86_64", "-nodefaults", "-no-reboot"),
        *("-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", str(MEMORY_MB), "-display", "none"),
        *("-kernel", str(FOLDER / "vmlinuz"), "-initrd", str(initramfs)),
        *("-append", "console=ttyS0 quiet loglevel=4 panic=-1", "-serial", f"file:{console}"),
        *("-fsdev", "local,id=machine,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=machine,mount_tag=machine"),
        *("-netdev", f"tap,id=lab,fd={tap}", "-device", f"virtio-net-pci,netdev=lab,mac={mac_text(nic.mac)},romfile="),
        *("-netdev", f"user,id=own,net={MACHINE}/24,host={MACHINE}{inward}"),
        *("-device", "virtio-net-pci,netdev=own,romfile="),
        *("-chardev", f"socket,id=serial,fd={channel}", "-device", "virtio-serial-pci"),
        *("-device", "virtserialport,chardev=serial,name=heddle"),
    ]


def _network_script(nic: Nic) -> str:
    return f"""
        set -e
        ln -sfn {FOLDER}/lib/modules /lib/modules
        modprobe -a {" ".join(MODULES)}
        sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
        ip link set lo up
        ip link set eth0 up mtu {MTU_BYTES}
        ip link set eth1 up
        ip addr add {ip_text(nic.ip)}/8 dev eth0
        ip addr add {GUEST}/24 dev eth1
        rdma link add {DEVICE} type rxe netdev eth0
        [ "$(uname -r)" = {kernel_version()} ]
    """


@contextmanager
def _macvtap(lab: Lab, nic: Nic, folder: Path) -> Iterator[int]:
    """Put a macvtap in the place of a host's NIC while the context lasts; yields its descriptor."""
    pid, name = lab.net.host(nic.host).pid, "guest"
    device, node = lab.net.device_of[nic.id], folder / f"{nic.host}.tap"
    link = ("link", "add", "link", device, "name", name, "address", mac_text(nic.mac), "type", "macvtap")
    in_host = lab.net.nic_command(nic, "ip")
    subprocess.run([*in_host, *link, "mode", "passthru"], check=True)
    try:
        subprocess.run([*in_host, "link", "set", name, "up"], check=True)
        (number,) = Path(f"/proc/{pid}/root/sys/class/net/{name}/macvtap").glob("tap*/dev")
        major, minor = map(int, number.read_text().split(":"))
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(major, minor))
        with network_namespace(pid):
            descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    finally:
        node.unlink(missing_ok=True)
        subprocess.run([*in_host, "link", "del", name], check=True)
