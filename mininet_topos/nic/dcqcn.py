"""DCQCN, the congestion control of RoCEv2, as two state machines; time and bytes are arguments.

Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3. The notification point is
the receiver: a packet marked "congestion experienced" makes it send a CNP, at most one per queue pair and interval.
The reaction point is the sender; RC is its current rate, RT its target rate, alpha its estimate of the congestion:

    CNP             RT = RC;  RC = RC (1 - alpha / 2);  alpha = (1 - g) alpha + g;  reset all timers and stages
    alpha timer     alpha = (1 - g) alpha
    increase timer  one increase, then T += 1
    B bytes sent    one increase, then BC += 1

    increase        max(T, BC) < F  fast recovery            RC = (RT + RC) / 2
                    min(T, BC) > F  hyper increase           RT += RHAI, then the same
                    otherwise       additive increase        RT += RAI,  then the same

Alpha starts at 1. A sender that has never received a CNP has no timers and sends at its limit. Events at the same
instant are processed in this order: timers, then the CNP or the bytes.

Scale: a lab link of 20 Mbit/s stands for one of 100 Gbit/s, 1:5000 in rate. The same factor in time would turn the
paper's 50 us between CNPs into 250 ms, and a demonstration into minutes, while the lab's control loop (switch, two
processes, the kernel) takes 1 to 4 ms at any scale. So the periods are a few times that loop: 4, 5 and 10 ms, which is
2.4, 3 and 6 full frames at 20 Mbit/s. They grow with the frame time on slower links; on faster ones they shrink to no
less than a quarter. Compared with the paper the loop is some 80 times slower while the rate is 5000 times slower, so a
period holds fewer frames than in hardware. All figures of the lab must be read with this in mind.
The byte counter keeps the paper's proportion to the increase timer: 10 MB are 36 periods of 55 us at 40 Gbit/s.
"""

from typing import NamedTuple

REFERENCE_RATE_BPS = 20_000_000
CNP_INTERVAL_NS = 4_000_000
ALPHA_TIMER_NS = 5_000_000
INCREASE_TIMER_NS = 10_000_000
BYTE_COUNTER_PERIODS = 36
MAX_SPEED_UP = 4
SETTLED_BPS = 1e-3


class DcqcnSettings(NamedTuple):
    """All parameters of both points; `for_line_rate` scales them as the module's docstring explains."""

    cnp_interval_ns: int
    alpha_timer_ns: int
    increase_timer_ns: int
    byte_counter_bytes: int
    g: float
    fast_recovery_stages: int
    additive_increase_bps: int
    hyper_increase_bps: int
    minimum_rate_bps: int

    @classmethod
    def for_line_rate(cls, line_rate_bps: int) -> "DcqcnSettings":
        """Return the settings for a NIC's line rate: additive increase 2 % of it, hyper increase 20 %."""
        pace_bps = min(line_rate_bps, MAX_SPEED_UP * REFERENCE_RATE_BPS)
        increase_timer_ns = INCREASE_TIMER_NS * REFERENCE_RATE_BPS // pace_bps
        return cls(
            cnp_interval_ns=CNP_INTERVAL_NS * REFERENCE_RATE_BPS // pace_bps,
            alpha_timer_ns=ALPHA_TIMER_NS * REFERENCE_RATE_BPS // pace_bps,
            increase_timer_ns=increase_timer_ns,
            byte_counter_bytes=BYTE_COUNTER_PERIODS * increase_timer_ns * line_rate_bps // (8 * 10**9),
            g=1 / 16,
            fast_recovery_stages=5,
            additive_increase_bps=line_rate_bps // 50,
            hyper_increase_bps=line_rate_bps // 5,
            minimum_rate_bps=max(1, line_rate_bps // 200),
        )


class NotificationPoint:
    """The receiving end of one queue pair: decides which marked packets trigger a CNP."""

    __slots__ = ("_interval_ns", "_quiet_until_ns")

    def __init__(self, settings: DcqcnSettings) -> None:
        """Create the state with no CNP sent."""
        self._interval_ns = settings.cnp_interval_ns
        self._quiet_until_ns: int | None = None

    def on_marked(self, now_ns: int) -> bool:
        """Process a packet marked "congestion experienced"; return whether to send a CNP for it."""
        if self._quiet_until_ns is not None and now_ns < self._quiet_until_ns:
            return False
        self._quiet_until_ns = now_ns + self._interval_ns
        return True


class ReactionPoint:
    """The sending end of one queue pair: its current rate. `limit_bps` is the upper bound, such as a plan's rate.

    No CNP cuts the rate below `floor_bps`: what a plan has room for whatever others send.
    """

    __slots__ = (
        "_alpha_due_ns", "_byte_stage", "_bytes", "_increase_due_ns", "_limited", "_settings", "_time_stage",
        "alpha", "floor_bps", "limit_bps", "rate_bps", "target_bps",
    )  # fmt: skip

    def __init__(self, settings: DcqcnSettings, limit_bps: float, floor_bps: float = 0.0) -> None:
        """Start at the limit, without timers."""
        self._settings, self.floor_bps = settings, floor_bps
        self.alpha = 1.0
        self.limit_bps = self.rate_bps = self.target_bps = float(limit_bps)
        self._limited = False
        self._alpha_due_ns = self._increase_due_ns = 0
        self._time_stage = self._byte_stage = self._bytes = 0

    @property
    def wake_ns(self) -> int | None:
        """Return the time at which `advance` next changes the rate; None while the rate is at the limit."""
        return None if not self._limited or self._settled else self._increase_due_ns

    def on_cnp(self, now_ns: int) -> None:
        """Process a CNP: cut the rate."""
        self.advance(now_ns)
        settings = self._settings
        self.target_bps = self.rate_bps
        min_bps = min(max(settings.minimum_rate_bps, self.floor_bps), self.limit_bps)
        self.rate_bps = max(min_bps, self.rate_bps * (1 - self.alpha / 2))
        self.alpha = (1 - settings.g) * self.alpha + settings.g
        self._limited = True
        self._alpha_due_ns = now_ns + settings.alpha_timer_ns
        self._increase_due_ns = now_ns + settings.increase_timer_ns
        self._time_stage = self._byte_stage = self._bytes = 0

    def on_sent(self, size_bytes: int, now_ns: int) -> None:
        """Count sent bytes towards the byte counter."""
        if not self._limited:
            return
        self.advance(now_ns)
        self._bytes += size_bytes
        while self._bytes >= self._settings.byte_counter_bytes:
            self._bytes -= self._settings.byte_counter_bytes
            self._increase()
            self._byte_stage += 1

    def advance(self, now_ns: int) -> None:
        """Process all timers due by `now_ns`; the number of steps is bounded, however long ago the last call was."""
        if not self._limited:
            return
        settings = self._settings
        if now_ns >= self._alpha_due_ns:
            times = (now_ns - self._alpha_due_ns) // settings.alpha_timer_ns + 1
            self.alpha *= (1 - settings.g) ** times
            self._alpha_due_ns += times * settings.alpha_timer_ns
        while now_ns >= self._increase_due_ns:
            times = (now_ns - self._increase_due_ns) // settings.increase_timer_ns + 1 if self._settled else 1
            self._increase()
            self._time_stage += times
            self._increase_due_ns += times * settings.increase_timer_ns

    def set_limit(self, limit_bps: float, now_ns: int) -> None:
        """Change the upper bound of the rate, as a new plan does."""
        self.advance(now_ns)
        self.limit_bps = float(limit_bps)
        if not self._limited:
            self.rate_bps = self.target_bps = self.limit_bps
        self.rate_bps = min(self.rate_bps, self.limit_bps)
        self.target_bps = min(self.target_bps, self.limit_bps)

    @property
    def _settled(self) -> bool:
        return self.rate_bps == self.limit_bps

    def _increase(self) -> None:
        settings, stages = self._settings, (self._time_stage, self._byte_stage)
        if min(stages) > settings.fast_recovery_stages:
            self.target_bps += settings.hyper_increase_bps
        elif max(stages) >= settings.fast_recovery_stages:
            self.target_bps += settings.additive_increase_bps
        self.target_bps = min(self.target_bps, self.limit_bps)
        self.rate_bps = (self.rate_bps + self.target_bps) / 2
        if self.limit_bps - self.rate_bps < SETTLED_BPS:  # halving the distance would never reach it in floating point
            self.rate_bps = self.target_bps = self.limit_bps
