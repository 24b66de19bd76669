"""Define the queueing that a plan assumes of every switch: ECN thresholds, pause thresholds, PFC watchdog.

Byte thresholds are those of a link of `REFERENCE_RATE_BPS` and scale with the rate, so that a threshold is the same
time on every link. The lab's queue model runs on the same values (`mininet_topos/queues/settings.py` has their
reasons), `heddle export sonic` writes them, and `heddle verify roce` compares with them. The classes of
traffic are in `heddle/foundation/traffic_class.py`.
"""

REFERENCE_RATE_BPS = 100 * 10**9
KMIN_BYTES = 20_000
KMAX_BYTES = 80_000
PMAX = 0.2
XON_BYTES = 24_000
WATCHDOG_DETECTION_MS = 200
WATCHDOG_RESTORATION_MS = 200


def at_rate(reference_bytes: int, rate_bps: int) -> int:
    """Return a threshold of the reference rate on a link of `rate_bps`, in bytes; at least 1."""
    return max(1, reference_bytes * rate_bps // REFERENCE_RATE_BPS)
