"""What a process wants its ports to be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSettings:
    """One interface of the process's network namespace. Ports are numbered in the order in which they are given."""

    interface: str
    receives: bool = True
    """False: it only sends, and what arrives goes to Linux as before."""
    queues: tuple[int, ...] = ()
    """Receive queues that are this process's, all if empty; several processes may share an interface by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSizes:
    """Frames, powers of two."""

    receive: int = 4096
    """That may wait per queue; fewer than this were lost whenever another process had the processor for a while."""
    transmit: int = 2048
    """That the kernel may have for sending per port."""
