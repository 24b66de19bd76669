"""What stands between generator and sink: our own devices and their peers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from benchmarks.gateway.wire import kernel_vxlan, openvswitch, testpmd
from benchmarks.gateway.wire.course import INGRESS_MAC, SINK_MAC, Course
from benchmarks.gateway.wire.drain import DEVICE_CPU, Ours, UnderTest
from benchmarks.gateway.wire.openvswitch import OpenVSwitch
from benchmarks.gateway.wire.testpmd import Testpmd
from benchmarks.gateway.wire.traffic import TUNNEL

BACKENDS = ("af-xdp", "af-packet")
TESTPMD, OPENVSWITCH, KERNEL = "testpmd", "openvswitch", "kernel"


class Way(Enum):
    """How it is measured."""

    DRAIN = "its ring is filled beforehand"
    FLOOD = "it is given more than it can forward"
    PASS = "it forwards while the generator sends"


@dataclass(frozen=True)
class Device:
    name: str
    backend: str
    """One of BACKENDS where it is ours; else TESTPMD, OPENVSWITCH, KERNEL."""
    kind: str
    """forward, encapsulate, gateway, gateway-sleeping; testpmd's kind of port; vxlan; or nothing."""
    most_frames: int = 1 << 20
    """That its ring holds."""
    longest: int = 9000
    """Bytes of a frame that it can forward."""

    @property
    def is_ours(self) -> bool:
        return self.backend in BACKENDS

    @property
    def way(self) -> Way:
        return {KERNEL: Way.PASS, OPENVSWITCH: Way.FLOOD}.get(self.backend, Way.DRAIN)

    @property
    def form(self) -> str:
        """What it is sent: tunnels, or frames to a MAC."""
        if self.kind.startswith("gateway"):
            return TUNNEL
        return INGRESS_MAC if self.way is Way.DRAIN else SINK_MAC  # a bridge would keep what is to its own MAC

    @property
    def plain(self) -> str:
        """The device that forwards and does nothing else in the same way; empty where there is none."""
        return ours("forward", self.backend).name if self.is_ours and self.kind != "forward" else ""


def ours(kind: str, backend: str) -> Device:
    return Device(f"heddle {backend} {kind}", backend, kind)


OURS = tuple(ours(kind, backend) for backend in BACKENDS for kind in ("forward", "encapsulate", "gateway"))
NET_AF_PACKET = Device("testpmd net_af_packet", TESTPMD, "net_af_packet")
NET_AF_XDP = Device(
    "testpmd net_af_xdp", TESTPMD, "net_af_xdp", most_frames=testpmd.AF_XDP_FRAMES, longest=testpmd.AF_XDP_BYTES
)
OVS = Device("Open vSwitch, user space, VXLAN", OPENVSWITCH, "vxlan")
LINUX = Device("Linux bridge and VXLAN", KERNEL, "vxlan")
NOTHING = Device("nothing: frames are thrown away", KERNEL, "nothing")


def available(length: int) -> tuple[Device, ...]:
    """Return all that can be had here for frames of a length."""
    peers = [NET_AF_PACKET, NET_AF_XDP] if testpmd.program() else []
    peers += [OVS] if openvswitch.is_installed() else []
    return tuple(device for device in (*peers, LINUX, *OURS) if length <= device.longest)


def absent() -> tuple[str, ...]:
    """Return a line for each peer that is not here."""
    lines = []
    if testpmd.program() is None:
        lines.append("no dpdk-testpmd here (HEDDLE_TESTPMD may name one): without its rows and the ratios to it")
    if not openvswitch.is_installed():
        lines.append("no Open vSwitch here: without its row")
    return tuple(lines)


def frames_of(length: int) -> int:
    """Return how many frames wait for a drain: of our AF_PACKET ring's 32 MB each takes 2 KiB, or 8 KiB."""
    return 16_000 if length <= 1500 else 4_000


def slots_of(length: int) -> int:
    """Return the room for them: AF_XDP needs two descriptors for a frame of 4,200 bytes."""
    return 32_768 if length <= 1500 else 8_192


@contextmanager
def opened(device: Device, length: int, slots: int) -> Iterator[tuple[Course, UnderTest | None]]:
    """Let a device run on a course of its own, with room for so many frames; None where it is the kernel."""
    with Course(max(1500, length + 100)) as course:
        under_test = _started(device, course, length, slots)
        try:
            yield course, under_test
        finally:
            if under_test is not None:
                under_test.close()


def _started(device: Device, course: Course, length: int, slots: int) -> UnderTest | None:
    if device.is_ours:
        return Ours(course, device.kind, device.backend, slots)
    if device.backend == TESTPMD:
        return Testpmd(course, device.kind, 2048 if length <= 1500 else 8192, slots)
    if device.backend == OPENVSWITCH:
        return OpenVSwitch(course, DEVICE_CPU)
    if device.kind == "vxlan":
        kernel_vxlan.set_up(course)
    return None
