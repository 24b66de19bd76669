"""The window's arrays equal a port-by-port oracle for any order of samples."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.telemetry.samples.counters import QUEUE_COUNTERS, port_column, queue_columns
from tests.oracles.telemetry_ports import PortOracle
from tests.support.examples import examples
from tests.unit.telemetry.builders import START, Fed, S, queue, sample, table

RATE_BPS = 10**9  # of the builders' ports
AHEAD, FUTURE_NS, RESTART = 50, 5 * S, 2
VALUES = st.one_of(
    st.integers(0, 5_000),
    st.sampled_from([2**32 - 10, 2**48 - 10, 2**64 - 10]),
    st.builds(lambda top, more: 2**top - 1 - more, st.sampled_from([32, 48, 64]), st.integers(0, 3_000)),
)
EVENTS = st.tuples(
    st.integers(1, 2),  # which port
    st.sampled_from([0, 1, 1, 1, 1, 2, -1, -3, 100]),  # step of the source's clock, seconds
    st.sampled_from([0, 1, 1, 1, 1, 2, 5, -2, -10, 60]),  # step of the sequence
    st.sampled_from([0, 0, 0, 0, 0, 1]),  # restarts of the device
    st.sampled_from([None, 10, 1_000, 10**8]),  # growth, or None for an unrelated value
    VALUES,
    st.booleans(),  # the sample contains queue 3
    st.booleans(),  # the period ends after it
)


def columns():
    yield "tx_bytes", port_column("tx_bytes")
    yield "drops", port_column("drops")
    for name in QUEUE_COUNTERS:
        yield f"queue_{name}", queue_columns(name).start + 3 * len(QUEUE_COUNTERS)


@settings(max_examples=examples(60))
@given(st.lists(EVENTS, max_size=40))
def test_the_arrays_agree_with_the_oracle(events):
    fed = Fed(table(2), max_sequence_ahead=AHEAD, max_future_ns=FUTURE_NS, restart_samples=RESTART)
    fastest = (2 * RATE_BPS / 8, 2 * RATE_BPS / 512)
    ports = {port: PortOracle(FUTURE_NS, AHEAD, RESTART, *fastest) for port in (1, 2)}
    state: dict[int, Any] = {port: [0, 100, 1, {}] for port in ports}
    for port, clock, step, boots, growth, value, speaks, ends in events:
        source = state[port]
        stamp, sequence, boot = source[0] + clock * S, max(0, source[1] + step), source[2] + boots
        counters = {"tx_bytes": 0, "drops": 0}
        if speaks:
            counters |= {f"queue_{name}": 0 for name in QUEUE_COUNTERS}
        for name in counters:
            before = source[3].get(name, 0)
            counters[name] = value if growth is None else (before + growth) % 2**64
        now = max(source[0], 0) + S
        queues = [queue(3, **{name: counters[f"queue_{name}"] for name in QUEUE_COUNTERS})] if speaks else []
        one = sample(
            f"leaf1:{port}",
            at=stamp / S,
            sequence=sequence,
            boot=boot,
            tx_bytes=counters["tx_bytes"],
            drops=counters["drops"],
            queues=queues,
        )
        stored = fed.store(one, now=now / S)
        expected = ports[port].offer(START + stamp, sequence, boot, counters, START + now)
        counted = {str(kind) for kind in (*stored.refused, *stored.noticed)} or {"taken"}
        assert expected in counted
        assert stored.taken == (expected in ("taken", "gap", "wrap", "reset"))
        if stored.taken:
            state[port] = [stamp, sequence, boot, source[3] | counters]
        if ends:
            period = fed.window.roll(START + now)
            for number, oracle in ports.items():
                grown, interval = oracle.roll()
                assert int(period.interval_ns[number - 1]) == interval
                for name, column in columns():
                    assert int(period.delta[number - 1, column]) == grown.get(name, 0) % 2**64
        for number, oracle in ports.items():
            for name, column in columns():
                assert int(fed.window.total[number - 1, column]) == oracle.totals.get(name, 0)


@settings(max_examples=examples(40))
@given(st.lists(EVENTS, max_size=30))
def test_totals_never_decrease(events):
    fed, before = Fed(table(2)), None
    state = {1: (0, 0, 1), 2: (0, 0, 1)}
    for port, clock, step, boots, _, value, _, _ in events:
        stamp, sequence, boot = state[port]
        state[port] = stamp + clock, max(0, sequence + step), boot + boots
        fed.store(
            sample(f"leaf1:{port}", at=state[port][0], sequence=state[port][1], boot=state[port][2], tx_bytes=value)
        )
        assert before is None or (fed.window.total >= before).all()
        before = fed.window.total.copy()
