"""Say what a bad cable has left: the share of its rate that RDMA makes of it in spite of its losses.

A NIC that resends by go-back-N sends again, after a loss, all packets that are in flight. With a share p of the packets
lost and W of them in flight, the throughput is (1 - p) / (1 - p + p W) (Bertsekas and Gallager, Data Networks, section
2.4; "The throughput efficiency of the go-back-N ARQ scheme under Markov and related error structures", 1988, names it
the well-known formula). For the small losses of cables that is 1 / (1 + p W).
"""

RTT_S = 10e-6
"""A round trip without queues in a fabric of two or three tiers."""
PACKET_BITS = 4096 * 8
"""The payload of the largest RoCE packet (path MTU 4096)."""


def goodput_share(loss: float, rate_bps: float) -> float:
    """Return the share of a rate that flows get over a cable that loses this share of their packets, above 0."""
    in_flight = max(1.0, rate_bps * RTT_S / PACKET_BITS)
    return 1.0 / (1.0 + min(max(loss, 0.0), 1.0) * in_flight)


def left_bps(capacity_bps: int, loss: float, rate_share: float) -> int:
    """Return the rate that a cable has left: what its speed or width allows, less what losses cost there."""
    rate_bps = capacity_bps * min(max(rate_share, 0.0), 1.0)
    return int(rate_bps * goodput_share(loss, rate_bps))
