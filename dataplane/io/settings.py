"""What a process wants its ports to be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSettings:
    """One interface of the process's network namespace. Ports are numbered in the order in which they are given."""

    interface: str
    receives: bool = True
    """False: it only sends, and what arrives goes to Linux as before."""
    queues: tuple[int, ...] = ()
    """AF_XDP: receive queues that are this process's, all if empty; so several processes can share an interface."""
    fanout: int | None = None
    """AF_PACKET: the group (0 to 65535) of processes that share what arrives, by the hash of flows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSizes:
    """Frames, powers of two."""

    receive: int = 4096
    """That may wait per queue; fewer than this were lost whenever another process had the processor for a while."""
    transmit: int = 2048
    """That the kernel may have for sending per port."""
