"""The devices between generator and sink: ours and their peers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from heddle.benchmarks.gateway.wire import kernel_vxlan, openvswitch, testpmd
from heddle.benchmarks.gateway.wire.course import INGRESS_MAC, SINK_MAC, Course
from heddle.benchmarks.gateway.wire.drain import DEVICE_CPU, Ours, UnderTest
from heddle.benchmarks.gateway.wire.openvswitch import OpenVSwitch
from heddle.benchmarks.gateway.wire.testpmd import Testpmd
from heddle.benchmarks.gateway.wire.traffic import TUNNEL

BACKENDS = ("af-xdp", "af-packet")
TESTPMD, OPENVSWITCH, KERNEL = "testpmd", "openvswitch", "kernel"


class Mode(Enum):
    """How a device is measured."""

    DRAIN = "its ring is filled, then it forwards"
    FLOOD = "it gets more than it can forward"
    PASS = "it forwards while the generator sends"


@dataclass(frozen=True)
class Device:
    name: str
    backend: str
    """One of BACKENDS for ours, or TESTPMD, OPENVSWITCH, KERNEL."""
    kind: str
    """forward, encapsulate, gateway, gateway-sleeping, balancer-…; testpmd's kind of port; vxlan; or nothing."""
    max_frames: int = 1 << 20
    """Capacity of its ring."""
    max_bytes: int = 9000
    """Largest frame that it can forward, in bytes."""
    traffic: str = ""
    """The form of the generated frames if not that of its kind; see `form`."""

    @property
    def is_ours(self) -> bool:
        return self.backend in BACKENDS

    @property
    def mode(self) -> Mode:
        return {KERNEL: Mode.PASS, OPENVSWITCH: Mode.FLOOD}.get(self.backend, Mode.DRAIN)

    @property
    def form(self) -> str:
        """The form of the generated frames: VXLAN packets, segments to a virtual IP, or frames to a MAC."""
        if self.traffic:
            return self.traffic
        if self.kind.startswith("gateway"):
            return TUNNEL
        return INGRESS_MAC if self.mode is Mode.DRAIN else SINK_MAC  # a bridge does not forward frames to its own MAC

    @property
    def plain(self) -> str:
        """The device with plain forwarding on the same backend; empty if none."""
        return ours("forward", self.backend).name if self.is_ours and self.kind != "forward" else ""


def ours(kind: str, backend: str) -> Device:
    return Device(f"heddle {backend} {kind}", backend, kind)


OURS = tuple(ours(kind, backend) for backend in BACKENDS for kind in ("forward", "encapsulate", "gateway"))
NET_AF_PACKET = Device("testpmd net_af_packet", TESTPMD, "net_af_packet")
NET_AF_XDP = Device(
    "testpmd net_af_xdp", TESTPMD, "net_af_xdp", max_frames=testpmd.AF_XDP_FRAMES, max_bytes=testpmd.AF_XDP_BYTES
)
OVS = Device("Open vSwitch, user space, VXLAN", OPENVSWITCH, "vxlan")
LINUX = Device("Linux bridge and VXLAN", KERNEL, "vxlan")
NOTHING = Device("nothing: frames are discarded", KERNEL, "nothing")


def available(length: int) -> tuple[Device, ...]:
    """Return the devices available on this machine for frames of a length."""
    peers = [NET_AF_PACKET, NET_AF_XDP] if testpmd.program() else []
    peers += [OVS] if openvswitch.is_installed() else []
    return tuple(device for device in (*peers, LINUX, *OURS) if length <= device.max_bytes)


def absent() -> tuple[str, ...]:
    """Return a line for each peer that is not installed."""
    lines = []
    if testpmd.program() is None:
        lines.append("dpdk-testpmd not found (HEDDLE_TESTPMD may name it): its rows and the ratios to it are left out")
    if not openvswitch.is_installed():
        lines.append("Open vSwitch not found: its row is left out")
    return tuple(lines)


def frames_of(length: int) -> int:
    """Return the number of frames of a drain: each takes 2 or 8 KiB of our AF_PACKET ring's 32 MB."""
    return 16_000 if length <= 1500 else 4_000


def slots_of(length: int) -> int:
    """Return the ring slots for them: AF_XDP needs two descriptors for a frame of 4,200 bytes."""
    return 32_768 if length <= 1500 else 8_192


@contextmanager
def opened(device: Device, length: int, slots: int) -> Iterator[tuple[Course, UnderTest | None]]:
    """Run a device with `slots` ring slots on a topology of its own; the device is None for the kernel."""
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
