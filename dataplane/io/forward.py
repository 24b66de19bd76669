"""Plain forwarding, from port to port and nothing else: what the engine costs before any element does its work."""

from dataplane.engine.burst import BURST, TRANSMIT
from dataplane.engine.counters import Counters
from dataplane.io.frames.layout import Ports
from dataplane.io.ports import receive, settle
from dataplane.jit import Ints, Rows, kernel


@kernel
def forward(ports: Ports, packets: Rows, to: Ints, rounds: int, counters: Counters) -> int:
    """Send what arrives at port `n` out of port `to[n]`, for so many rounds over all ports; return how many frames.

    A port whose `to` is negative is not looked at. `packets` has BURST rows.
    """
    frames = 0
    for _ in range(rounds):
        for port in range(to.size):
            if to[port] < 0:
                continue
            count = receive(ports, port, packets, BURST, counters)
            for i in range(count):
                packets[i].node = TRANSMIT
                packets[i].out_port = to[port]
            if count:
                settle(ports, packets, count, counters)
                frames += count
    return frames
