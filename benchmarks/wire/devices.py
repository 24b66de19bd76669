"""What stands between generator and sink: our own devices and their peers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.wire import testpmd
from benchmarks.wire.course import Course
from benchmarks.wire.drain import Ours, UnderTest

BACKENDS = ("af-xdp", "af-packet")
TESTPMD = "testpmd"


@dataclass(frozen=True)
class Device:
    name: str
    backend: str
    """Of ours; TESTPMD for that."""
    kind: str
    """forward, encapsulate, gateway, gateway-sleeping; or testpmd's kind of port."""
    most_frames: int = 1 << 20
    """That its ring holds."""
    longest: int = 9000
    """Bytes of a frame that it can forward."""

    @property
    def is_ours(self) -> bool:
        return self.backend in BACKENDS

    @property
    def takes_tunnels(self) -> bool:
        return self.kind.startswith("gateway")

    @property
    def plain(self) -> str:
        """The device that forwards and does nothing else in the same way; its own name where it is that."""
        return ours("forward", self.backend).name if self.is_ours else self.name


def ours(kind: str, backend: str) -> Device:
    return Device(f"heddle {backend} {kind}", backend, kind)


OURS = tuple(ours(kind, backend) for backend in BACKENDS for kind in ("forward", "encapsulate", "gateway"))
NET_AF_PACKET = Device("testpmd net_af_packet", TESTPMD, "net_af_packet")
PEERS = (
    NET_AF_PACKET,
    Device(
        "testpmd net_af_xdp", TESTPMD, "net_af_xdp",
        most_frames=testpmd.AF_XDP_FRAMES, longest=testpmd.AF_XDP_BYTES,
    ),
)  # fmt: skip


def drainable(length: int) -> tuple[Device, ...]:
    """Return all that can be had here for frames of a length, and whose ring can be filled beforehand."""
    every = (*PEERS, *OURS) if testpmd.program() else OURS
    return tuple(device for device in every if length <= device.longest)


def frames_of(length: int) -> int:
    """Return how many frames wait for a drain: of our AF_PACKET ring's 32 MB each takes 2 KiB, or 8 KiB."""
    return 16_000 if length <= 1500 else 4_000


def slots_of(length: int) -> int:
    """Return the room for them: AF_XDP needs two descriptors for a frame of 4,200 bytes."""
    return 32_768 if length <= 1500 else 8_192


@contextmanager
def opened(device: Device, length: int, slots: int) -> Iterator[tuple[Course, UnderTest]]:
    """Let a device run on a course of its own, with room for so many frames."""
    with Course(max(1500, length + 100)) as course:
        under_test: Ours | testpmd.Testpmd
        if device.is_ours:
            under_test = Ours(course, device.kind, device.backend, slots)
        else:
            under_test = testpmd.Testpmd(course, device.kind, 2048 if length <= 1500 else 8192, slots)
        try:
            yield course, under_test
        finally:
            under_test.close()
