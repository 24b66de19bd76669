"""The detector's arrays beside one state machine per queue; stale data raises and clears nothing."""

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from heddle.telemetry.detection.detector import Detector
from heddle.telemetry.detection.signal import SignalKind
from heddle.telemetry.detection.thresholds import DetectorSettings
from tests.oracles.telemetry_ports import Machine
from tests.support.examples import examples
from tests.unit.telemetry.builders import START, Fed, S, queue, sample, table

PORTS, PRIORITIES = 3, (0, 3)
STALE_S = 3
GROWTHS = st.fixed_dictionaries(
    {
        "packets": st.sampled_from([0, 5, 100, 1_000]),
        "ecn_marked_packets": st.sampled_from([0, 0, 1, 4, 100]),
        "paused_ns": st.sampled_from([0, 0, 500_000, 5_000_000, 600_000_000, 950_000_000]),
        "pfc_rx_frames": st.sampled_from([0, 0, 1, 4, 30]),
        "dropped_packets": st.sampled_from([0, 0, 0, 2]),
    }
)


def conditions(grown, seconds, s, tripped):
    """Return by kind whether one queue's period is over and under the thresholds."""
    sent = max(grown["packets"] or 0, grown["ecn_marked_packets"])
    share = grown["ecn_marked_packets"] / max(sent, 1)
    paused = min(grown["paused_ns"] / 1e9 / seconds, 1.0)
    frames = grown["pfc_rx_frames"] / seconds
    still = grown["packets"] == 0
    return {
        SignalKind.CONGESTION: (
            share >= s.congestion_raise_share and sent >= s.congestion_min_packets,
            share <= s.congestion_clear_share,
        ),
        SignalKind.PAUSING: (
            paused >= s.pausing_raise_share or frames >= s.pausing_raise_frames_per_s,
            paused <= s.pausing_clear_share and frames <= s.pausing_clear_frames_per_s,
        ),
        SignalKind.STORM: (
            (paused >= s.storm_raise_share and still) or tripped,
            (paused <= s.storm_clear_share or not still) and not tripped,
        ),
        SignalKind.DROP: (
            grown["dropped_packets"] >= s.drop_raise_packets,
            grown["dropped_packets"] <= s.drop_clear_packets,
        ),
    }


class DetectorMachine(RuleBasedStateMachine):
    """Ports sample or stay silent, a second at a time."""

    @initialize(
        raise_periods=st.integers(1, 4), clear_periods=st.integers(1, 4), storm_ms=st.sampled_from([100, 3_000])
    )
    def start(self, raise_periods, clear_periods, storm_ms):
        self.settings = DetectorSettings(raise_periods=raise_periods, clear_periods=clear_periods, storm_ms=storm_ms)
        self.feds = [Fed(table(PORTS), stale_after_ns=STALE_S * S) for _ in range(2)]
        self.detectors = [Detector(fed.window.ports, self.settings, stale_after_ns=STALE_S * S) for fed in self.feds]
        storm = max(2, math.ceil(storm_ms / 1_000))
        after = {
            SignalKind.CONGESTION: (raise_periods, clear_periods),
            SignalKind.PAUSING: (raise_periods, clear_periods),
            SignalKind.STORM: (storm, storm),
            SignalKind.DROP: (1, clear_periods),
        }
        self.machines: dict[tuple[SignalKind, str, int | None], Machine] = {
            (kind, f"leaf1:{port}", priority): Machine(*periods)
            for kind, periods in after.items()
            for port in range(1, PORTS + 1)
            for priority in PRIORITIES
        }
        for port in range(1, PORTS + 1):
            self.machines[SignalKind.SILENT, f"leaf1:{port}", None] = Machine(1, self.settings.silent_clear_periods)
        self.now = 0
        self.counters = {}
        self.last = {}
        self.sequence = {}

    @rule(data=st.data(), active=st.sets(st.integers(1, PORTS)))
    def second(self, data, active):
        self.now += 1
        grown = {}
        for port in sorted(active):
            name = f"leaf1:{port}"
            queues = []
            for priority in PRIORITIES:
                more = data.draw(GROWTHS)
                known = self.counters.setdefault((name, priority), dict.fromkeys(more, 0))
                for counter, value in more.items():
                    known[counter] += value
                grown[name, priority] = more
                grown[name, priority]["tripped"] = tripped = data.draw(st.integers(0, 5)) == 0
                queues.append(queue(priority, watchdog_active=tripped, **known))
            self.sequence[name] = self.sequence.get(name, 0) + 1
            for fed in self.feds:
                fed.store(sample(name, at=self.now, sequence=self.sequence[name], queues=queues))
        self.compare({f"leaf1:{port}" for port in active}, grown)

    @rule(seconds=st.integers(1, 6))
    def no_samples(self, seconds):
        for _ in range(seconds):
            self.now += 1
            self.compare(set(), {})

    def compare(self, sampled, grown):
        expected: set[tuple[SignalKind, str, int | None, bool]] = set()
        for name in sorted(self.last.keys() | sampled):
            before = self.last.get(name, self.now)
            fresh = name in sampled and name in self.last
            stale = name not in sampled and self.now - before > STALE_S
            if fresh or stale:
                turned = self.machines[SignalKind.SILENT, name, None].step(stale, fresh)
                expected |= {(SignalKind.SILENT, name, None, turned)} if turned is not None else set()
            if fresh:
                for priority in PRIORITIES:
                    tripped = grown[name, priority]["tripped"]
                    found = conditions(grown[name, priority], self.now - before, self.settings, tripped)
                    for kind, (over, under) in found.items():
                        turned = self.machines[kind, name, priority].step(
                            over, under, kind is SignalKind.STORM and tripped
                        )
                        expected |= {(kind, name, priority, turned)} if turned is not None else set()
        self.last |= dict.fromkeys(sampled, self.now)
        results = []
        for fed, detector in zip(self.feds, self.detectors, strict=True):
            period = fed.window.roll(START + self.now * S)
            results.append((detector.step(period), detector.active(period)))
        assert results[0] == results[1]
        signals, self.active = results[0]
        assert {(s.kind, s.port, s.priority, s.raised) for s in signals} == expected
        assert all(s.kind is SignalKind.SILENT or s.port in sampled for s in signals)

    @invariant()
    def what_is_active_is_what_is_raised(self):
        if getattr(self, "active", None) is not None:
            raised = {key for key, machine in self.machines.items() if machine.raised}
            assert {(s.kind, s.port, s.priority) for s in self.active} == raised
            assert all(s.stale == (self.now - self.last[s.port] > STALE_S) for s in self.active)


TestDetectorMachine = DetectorMachine.TestCase
TestDetectorMachine.settings = settings(max_examples=examples(12), stateful_step_count=25)
