"""Plain forwarding from port to port: the cost of the engine without any element."""

from heddle.dataplane.engine.burst import BURST, TRANSMIT
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.io.ports import receive, settle
from heddle.dataplane.jit import Ints, Rows, kernel


@kernel
def forward(ports: Ports, packets: Rows, to: Ints, rounds: int, counters: Counters) -> int:
    """Send what arrives at port `n` out of port `to[n]`, for `rounds` rounds over all ports; return how many frames.

    A port with a negative `to` is not polled. `packets` has BURST rows.
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
