"""The dataplane benchmark's evaluation of samples, accounting and rounds, without measurements."""

import io
import json
import random
import socket
from dataclasses import replace

import pytest

from heddle.benchmarks.__main__ import main
from heddle.benchmarks.gateway import dataplane
from heddle.benchmarks.gateway.wire import prober, testpmd
from heddle.benchmarks.gateway.wire.devices import LINUX, NET_AF_PACKET, NOTHING, OVS, ours
from heddle.benchmarks.gateway.wire.drain import Accounting, Measured, check_accounting
from heddle.benchmarks.gateway.wire.drains import BASE, Ratio, Row, ratio, rows
from heddle.benchmarks.gateway.wire.latencies import quantile
from heddle.benchmarks.gateway.wire.watching import Sample, cost, watch

NS, FRAMES = 1_500, 16_000
"""Cost per frame and number of frames of the made samples."""


def samples(stalled: dict[int, int] | None = None, apart_ns: int = 50_000) -> list[Sample]:
    """Return 16 samples, one per 1,000 frames; some were stalled between clock and frame count."""
    found = []
    for number in range(16):
        frames = 1_000 * number + 500
        before = frames * NS
        stall_ns = (stalled or {}).get(number, 0)
        frames += stall_ns // NS
        found.append(Sample(before, frames, before + stall_ns + apart_ns, frames + apart_ns // NS))
    return found


def test_the_cost_is_the_growth_of_time_over_that_of_frames():
    found = cost(samples(), FRAMES)
    assert found is not None
    assert found.ns == pytest.approx(NS, rel=0.001)


def test_a_stalled_sample_is_discarded_at_any_place():
    for number in range(16):
        found = cost(samples({number: 3_000_000}), FRAMES)
        assert found is not None
        assert found.ns == pytest.approx(NS, rel=0.001)


def test_samples_from_after_the_last_frame_do_not_count():
    after = [Sample(time_ns, FRAMES, time_ns + 50_000, FRAMES) for time_ns in (40_000_000, 90_000_000)]
    found = cost([*samples(), *after], FRAMES)
    assert found is not None
    assert found.ns == pytest.approx(NS, rel=0.001)


def test_samples_of_less_than_half_of_the_frames_are_invalid():
    assert cost(samples()[:7], FRAMES) is None
    assert cost(samples()[:1], FRAMES) is None
    assert cost([], FRAMES) is None


def test_samples_with_distant_clocks_are_invalid():
    assert cost(samples(apart_ns=3_000_000), FRAMES) is None


def test_a_stopped_clock_is_invalid():
    assert cost([replace(one, before_ns=0, after_ns=0) for one in samples()], FRAMES) is None


def test_a_watch_ends_with_the_last_frame_and_has_samples_of_all_of_it():
    frames = iter(range(0, 10_000_000, 10))
    last = 0

    def received() -> int:
        nonlocal last
        last = min(next(frames), 5_000)
        return last

    found, sunk = watch(received, lambda: last * NS, 5_000)
    assert sunk == 5_000
    assert found[0].frames < 1_000
    assert found[-1].frames > 4_000


WHOLE = Accounting(received=90, missed=10, transmitted=80, dropped=10)


def test_a_complete_accounting_is_accepted():
    check_accounting("x", 100, 80, WHOLE)


@pytest.mark.parametrize(
    ("sent", "sunk", "accounting"),
    [
        (101, 80, WHOLE),
        (99, 80, WHOLE),
        (100, 79, WHOLE),
        (100, 81, WHOLE),
        (100, 80, replace(WHOLE, dropped=9)),
        (100, 80, replace(WHOLE, missed=9)),
        (100, 0, Accounting(received=0, missed=100, transmitted=0, dropped=0)),
    ],
)
def test_an_incomplete_accounting_is_an_error(sent: int, sunk: int, accounting: Accounting):
    with pytest.raises(RuntimeError, match="x: "):
        check_accounting("x", sent, sunk, accounting)


OUTPUT = """
  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 16000          RX-dropped: 7             RX-total: 16007
  TX-packets: 0              TX-dropped: 0             TX-total: 0
  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 16001          RX-dropped: 8             RX-total: 16009
  TX-packets: 15999          TX-dropped: 2             TX-total: 16001
"""


def test_the_accounting_of_testpmd_covers_all_its_ports():
    assert testpmd.accounting(OUTPUT) == Accounting(received=16001, missed=8, transmitted=15999, dropped=2)
    with pytest.raises(RuntimeError, match="no statistics"):
        testpmd.accounting(OUTPUT.split("+++")[0])


def test_a_ratio_is_per_round_and_independent_of_the_machines_speed():
    chance = random.Random(1)
    speeds = [chance.choice((1.0, 1.6)) for _ in range(61)]
    found = ratio([0.7 * speed for speed in speeds], [1.0 * speed for speed in speeds])
    assert found is not None
    assert (found.low, found.median, found.high) == pytest.approx((0.7, 0.7, 0.7))


def test_a_ratio_has_a_confidence_interval():
    chance, inside = random.Random(2), 0
    for _ in range(400):
        found = ratio([chance.gauss(0.8, 0.1) for _ in range(61)], [1.0] * 61)
        assert found is not None
        inside += found.low <= 0.8 <= found.high
    assert 0.92 < inside / 400 < 0.99


def measured(own_ns: float, delivery_ns: float) -> Measured:
    return Measured(own_ns, delivery_ns, 0.0, 100, 100, None)


def test_the_whole_cost_is_beyond_that_of_a_discarded_frame():
    encapsulate, plain = ours("encapsulate", "af-xdp"), ours("forward", "af-xdp")
    found = {
        NOTHING: [measured(0.0, 900.0)] * 3,
        NET_AF_PACKET: [measured(1_500.0, 1_400.0)] * 3,
        LINUX: [measured(0.0, 2_900.0)] * 3,
        plain: [measured(900.0, 1_200.0)] * 3,
        encapsulate: [measured(990.0, 1_200.0)] * 3,
    }
    by_name = {row.device: row for row in rows(64, found, dict.fromkeys(found, 0))}
    assert NOTHING.name not in by_name
    assert by_name[LINUX.name].us is None
    assert by_name[LINUX.name].whole_us == pytest.approx(2.0)
    kernel = by_name[LINUX.name].whole_to_base
    assert kernel is not None
    assert kernel.median == pytest.approx(1.0)
    assert by_name[BASE].to_base is None
    row = by_name[encapsulate.name]
    assert row.us == pytest.approx(0.99)
    assert row.to_base is not None
    assert row.to_plain is not None
    assert (row.to_base.median, row.to_plain.median) == pytest.approx((0.66, 1.1))


def test_a_quantile_is_the_smallest_value_that_enough_do_not_exceed():
    values = list(range(1, 1001))
    assert quantile(values, 0.5) == 500
    assert quantile(values, 0.99) == 990
    assert quantile(values, 1.0) == 1000
    assert quantile([7], 0.99) == 7


def test_a_probe_recognizes_its_frames_and_skips_lost_ones(monkeypatch):
    monkeypatch.setattr(prober, "TIMEOUT_NS", 1_000_000)
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    class Lossy:
        """A socket that loses every third frame and delivers a foreign one before each."""

        sent = 0

        def send(self, frame: bytes) -> None:
            self.sent += 1
            sender.send(bytes(60))
            if self.sent % 3:
                sender.send(frame)

    with sender, receiver:
        took = prober.probe(Lossy(), receiver, [bytes(range(60)), bytes(60)], 5, 9, 0)  # type: ignore[arg-type]
    assert len(took) == 6
    assert all(each > 0 for each in took)


def test_the_table_has_a_line_for_every_device_and_json_holds_the_same(monkeypatch):
    row = Row(
        device=OVS.name, length=64, us=4.0, best_us=3.0, mpps=0.25, to_base=Ratio(3.0, 2.9, 3.1), to_plain=None,
        whole_us=4.5, whole_to_base=Ratio(2.0, 1.9, 2.1), soft_share=0.0, rounds=61, repeated=0, sent=1,
    )  # fmt: skip
    kernel = replace(row, device=LINUX.name, us=None, best_us=None, mpps=None, to_base=None)
    monkeypatch.setattr(dataplane, "measured", lambda length, which: [row, kernel])
    out = io.StringIO()
    found = dataplane._wire(out, 64)
    assert [line.split()[0] for line in out.getvalue().splitlines()[-2:]] == ["Open", "Linux"]
    assert "3.00 [2.90 3.10]" in out.getvalue()
    assert json.loads(json.dumps(found))[1]["device"] == LINUX.name


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["dataplane", "--only", "wire-63"])
    assert "no part 'wire-63'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plan", "--only", "memory"])
    assert "dataplane only" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_an_invalid_duration_is_refused(capsys, seconds):
    with pytest.raises(SystemExit):
        main(["dataplane", f"--load-seconds={seconds}"])
    assert "--load-seconds" in capsys.readouterr().err


def test_the_duration_of_the_load_is_an_option_of_one_benchmark(capsys, monkeypatch):
    given = []
    monkeypatch.setattr(
        "heddle.benchmarks.gateway.dataplane.run", lambda out, parts=(), load_seconds=60: given.append(load_seconds)
    )
    assert main(["dataplane", "--load-seconds", "7.5"]) == 0
    assert given == [7.5]
    with pytest.raises(SystemExit):
        main(["plan", "--load-seconds", "7.5"])
    assert "dataplane only" in capsys.readouterr().err
