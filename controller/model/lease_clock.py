"""Count a leader's lease by its own clock, which starts before the store's: it ends here before it ends there.

The store counts from when it processes a request to keep the lease, which is after the request was sent. Times are of a
clock that also counts while the process or the machine sleeps, in nanoseconds.
"""

from dataclasses import dataclass, replace

SHARE = 4
"""A lease is kept alive so many times in its time, so that some of the requests may fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClock:
    """A lease that ends at `ends_ns`, and is renewed at `next_ns`. What has ended does not begin again."""

    ends_ns: int
    next_ns: int

    def holds(self, now_ns: int) -> bool:
        """Return whether the holder may act."""
        return now_ns < self.ends_ns

    def kept(self, sent_ns: int, ttl_ns: int, now_ns: int) -> "LeaseClock":
        """Return the lease after a reply at `now_ns` to a request sent at `sent_ns`."""
        if not self.holds(now_ns):
            return self
        return replace(granted(sent_ns, ttl_ns), ends_ns=max(self.ends_ns, sent_ns + ttl_ns))


def granted(sent_ns: int, ttl_ns: int) -> LeaseClock:
    """Return a lease whose first request was sent at `sent_ns`; the store keeps it for `ttl_ns`."""
    return LeaseClock(ends_ns=sent_ns + ttl_ns, next_ns=sent_ns + ttl_ns // SHARE)
