"""The judgement of links beside plain accounts: no gap, reset or unknown counter accuses a cable."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.telemetry.detection.detector import Detector
from heddle.telemetry.detection.signal import SignalKind
from heddle.telemetry.detection.thresholds import DetectorSettings
from tests.support.examples import examples
from tests.unit.telemetry.builders import START, Fed, S, sample, table

RATE_BPS = 10**9  # of the builders' ports
PORTS = (1, 2)
SETTINGS = DetectorSettings(
    raise_periods=2, clear_periods=2, loss_raise_ratio=1e-2, loss_clear_ratio=1e-3, loss_min_errors=4,
    loss_clear_periods=3,
)  # fmt: skip
SAMPLES = st.fixed_dictionaries({
    "rx_packets": st.sampled_from([0, 10, 1_000, 3_000]),
    "rx_crc_errors": st.sampled_from([None, 0, 0, 1, 30]),
    "fec_uncorrectable_codewords": st.sampled_from([None, None, 0, 5, 4_000]),
    "speed_bps": st.sampled_from([None, RATE_BPS, RATE_BPS, RATE_BPS // 4]),
    "carrier": st.sampled_from([None, True, True, False]),
    "seconds": st.sampled_from([1, 1, 1, 3]),
    "restarts": st.sampled_from([False, False, False, False, True]),
})  # fmt: skip


@dataclass
class Account:
    """What adds up until it decides: losses of how many, in how many samples, over how many samples."""

    lost: float = 0
    of: float = 0
    bursts: int = 0
    samples: int = 0


@dataclass
class Oracle:
    """One port: counters of its last sample, two accounts, and what is raised."""

    last: dict = field(default_factory=dict)
    accounts: dict = field(default_factory=lambda: {"frames": Account(), "codewords": Account()})
    lossy: bool = False
    slow: bool = False
    slow_run: int = 0
    down_since: int = 0

    def take(self, now: int, counters: dict, speed: int | None, carrier: bool | None, follows: bool) -> None:
        before, self.last = self.last, {**self.last, **{k: v for k, v in counters.items() if v is not None}}
        falls = any(v is not None and v < before.get(k, v) for k, v in counters.items())
        if not follows or falls:  # a counter that was unknown at the restart shows it late
            return
        relinked = False
        if carrier is False and not self.down_since:
            self.down_since = now
        elif carrier:
            relinked, self.down_since = bool(self.down_since) and now - self.down_since >= 5, 0
        if relinked:
            self.accounts = {"frames": Account(), "codewords": Account()}
        self._loss(now, before, counters, speed, relinked)
        self._slow(speed, carrier)

    def _loss(self, now: int, before: dict, counters: dict, speed: int | None, relinked: bool) -> None:
        grown = {k: v - before.get(k, v) for k, v in counters.items() if v is not None}
        line = (speed or RATE_BPS) * (now - before["now"]) / 5120
        sizes = {
            "frames": ("rx_crc_errors", lambda lost: grown["rx_packets"] + lost),
            "codewords": ("fec_uncorrectable_codewords", lambda lost: max(line, lost)),
        }
        accused = calm = doubtful = False
        for name, (counter, size) in sizes.items():
            account = self.accounts[name]
            if counter in grown:
                lost = grown[counter]
                account.lost, account.of = account.lost + lost, account.of + size(lost)
                account.bursts, account.samples = account.bursts + (lost > 0), account.samples + 1
            share = account.lost / max(account.of, 1)
            many = account.lost >= 4
            full = account.samples >= 3 and account.of >= 4_000
            over = many and account.bursts >= 2 and share >= 1e-2
            accused, calm = accused or over, calm or (full and share <= 1e-3)
            doubtful = doubtful or (many and share > 1e-3)
            if over or full:
                self.accounts[name] = Account()
        if accused:
            self.lossy = True
        elif (calm and not doubtful) or relinked:
            self.lossy = False

    def _slow(self, speed: int | None, carrier: bool | None) -> None:
        if speed is None or carrier is False:
            self.slow_run = 0
            return
        turns = (speed >= RATE_BPS) if self.slow else (speed < RATE_BPS)
        self.slow_run = self.slow_run + 1 if turns else 0
        if self.slow_run == 2:
            self.slow, self.slow_run = not self.slow, 0


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.sampled_from(PORTS), SAMPLES), max_size=40))
def test_what_is_raised_is_what_the_oracle_raises(steps):
    fed = Fed(table(len(PORTS)), stale_after_ns=10**6 * S)
    detector = Detector(fed.window.ports, SETTINGS, stale_after_ns=10**6 * S)
    oracles = {port: Oracle() for port in PORTS}
    totals = {port: {"rx_packets": 0, "rx_crc_errors": 0, "fec_uncorrectable_codewords": 0} for port in PORTS}
    boots, now = dict.fromkeys(PORTS, 1), 0
    for sequence, (port, step) in enumerate(steps, 1):
        now += step["seconds"]
        follows, known = not step["restarts"] and bool(oracles[port].last), totals[port]
        if step["restarts"]:
            boots[port] += 1
            known.update(dict.fromkeys(known, 0))
        counters = {}
        for name in known:
            known[name] += step[name] or 0
            counters[name] = None if step[name] is None else known[name]
        link = {name: step[name] for name in ("speed_bps", "carrier")}
        fed.store(sample(f"leaf1:{port}", at=now, sequence=sequence, boot=boots[port], **counters, **link))
        oracles[port].take(now, {**counters, "now": now}, step["speed_bps"], step["carrier"], follows)
        period = fed.window.roll(START + now * S)
        detector.step(period)
        raised = {(s.kind, s.port) for s in detector.active(period)}
        wanted = {(SignalKind.LOSS, f"leaf1:{p}") for p, each in oracles.items() if each.lossy}
        wanted |= {(SignalKind.SLOW, f"leaf1:{p}") for p, each in oracles.items() if each.slow}
        assert raised & {(k, f"leaf1:{p}") for k in (SignalKind.LOSS, SignalKind.SLOW) for p in PORTS} == wanted
