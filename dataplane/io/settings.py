"""Settings of the ports of a process."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSettings:
    """One interface of the process's network namespace. Ports are numbered in the given order."""

    interface: str
    mtu_bytes: int = 0
    """The longest IP packet that the process sends; the interface's MTU has to be as large."""
    receives: bool = True
    """False: the port only sends, and Linux receives as before."""
    queues: tuple[int, ...] = ()
    """AF_XDP: the receive queues of this process, all if empty; several processes can thus share an interface."""
    fanout: int | None = None
    """AF_PACKET: the fanout group (0 to 65535) of processes that share received frames by flow hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSizes:
    """Sizes in frames, powers of two."""

    receive: int = 4096
    """Frames that may wait per queue; with fewer, frames were lost whenever another process had the processor for a
    while."""
    transmit: int = 2048
    """Frames per port that the kernel may hold for sending."""
