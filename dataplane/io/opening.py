"""Open the ports of a process: AF_XDP if it is available, otherwise AF_PACKET rings, with a notice."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.io.af_packet.ring import TapPorts
from heddle.dataplane.io.af_xdp.xsk import XskPorts
from heddle.dataplane.io.claim import claimed, release
from heddle.dataplane.io.fault import BackendMissingError, PortError
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.io.interface import RECEIVING, Link, read_interface, switch_off_offloads
from heddle.dataplane.io.settings import PortSettings, RingSizes

MAX_FRAME_BYTES = 9_216 + 22


class Backend(StrEnum):
    """Kinds of port that lead to a network."""

    AUTO = "auto"
    AF_XDP = "af-xdp"
    AF_PACKET = "af-packet"


class OpenPorts(Protocol):
    """Open ports of a process; kernels use only `ports`, Python uses the methods."""

    ports: Ports

    def sample(self, counters: Counters) -> None:
        """Add the frames that the kernel dropped since the last call to `rx_missed`; one system call per socket."""

    def drain(self, counters: Counters) -> None:
        """Send waiting frames, for a bounded time; the rest counts as lost."""

    def close(self) -> None:
        """Detach programs, close sockets, and free the memory; no kernel may be using `ports`."""


def open_ports(
    settings: Sequence[PortSettings],
    *,
    notify: Callable[[str], None],
    backend: Backend = Backend.AUTO,
    sizes: RingSizes | None = None,
) -> OpenPorts:
    """Open ports in the network namespace of this thread.

    Raises:
        PortError: one line: no such interface, it is down, its MTU is small, another process receives its frames,
            missing privileges, or the requested backend is missing.
    """
    sizes = sizes or RingSizes()
    if not settings:
        raise PortError("no interface is given")
    links = [_ready(wanted) for wanted in settings]
    claims = claimed(settings, links)
    try:
        ports = _opened(settings, links, notify, backend, sizes)
    except BaseException:
        release(claims)
        raise
    ports.claims = claims
    return ports


def _opened(
    settings: Sequence[PortSettings],
    links: Sequence[Link],
    notify: Callable[[str], None],
    backend: Backend,
    sizes: RingSizes,
) -> XskPorts | TapPorts:
    for wanted, link in zip(settings, links, strict=True):
        if wanted.receives and (left := _stop_aggregation(link)):
            notify(
                f"{link.name}: {', '.join(left)} stays on; the frames that it aggregates are too long to be forwarded"
            )
    if backend != Backend.AF_PACKET:
        try:
            return XskPorts(settings, links, sizes)
        except BackendMissingError as missing:
            if backend == Backend.AF_XDP:
                raise
            notify(f"{missing}; using AF_PACKET rings, at about two thirds of the speed")
    ports = TapPorts(settings, links, sizes)
    for notice in ports.notices:
        notify(notice)
    return ports


def _ready(wanted: PortSettings) -> Link:
    link = read_interface(wanted.interface)
    if not link.up:
        raise PortError(f"{link.name} is down; `ip link set {link.name} up`")
    if wanted.mtu_bytes > link.mtu_bytes:
        raise PortError(
            f"{link.name}: mtu_bytes: {wanted.mtu_bytes} is above the device's MTU of {link.mtu_bytes}; lower it, or "
            f"`ip link set {link.name} mtu {wanted.mtu_bytes}`"
        )
    if link.frame_bytes > MAX_FRAME_BYTES:
        raise PortError(f"{link.name}: an MTU of {link.mtu_bytes}; frames of up to 9216 bytes can be forwarded")
    return link


def _stop_aggregation(link: Link) -> tuple[str, ...]:
    try:
        return switch_off_offloads(link.name, RECEIVING)
    except PortError:
        return RECEIVING
