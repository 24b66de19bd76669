import asyncio
import io
import itertools
import json
import re
import threading
import time

import pytest
from rich.console import Console

from heddle.controller.model.error import InputError
from heddle.programs.console.events import since_ns
from heddle.programs.console.telemetry.rates import PortRates
from heddle.programs.console.telemetry.top import table
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.telemetry.telemetry_feed import TelemetryFeed
from tests.support.controllers.served_controller import served


def feed_once(feed):
    """A busy port with marks and pauses, a quieter NIC, and a port that spoke long ago."""
    feed.queue(
        "leaf1:1", packets=100, ecn_marked_packets=25, paused_ns=250_000_000, pfc_rx_frames=6, depth_bytes=65_536
    )
    feed.grow("leaf1:1", tx_bytes=int(feed.ports.rates_bps[feed.ports.row("leaf1:1")] / 8 * 0.9), drops=3)
    feed.grow("h1-n0", tx_bytes=1_000)
    feed.sample("leaf1:1", "h1-n0")


async def feed_on(application, ready):
    """Let the collector's time run twenty times as fast."""
    feed = TelemetryFeed(application.feeds.telemetry, application.loop.state.fabric)
    feed.grow("leaf2:1", tx_bytes=1)
    feed.scan()
    feed.scan(10, sample=False)
    for rounds in itertools.count(1):
        feed.now_ns += 500_000_000
        feed_once(feed)
        feed.scan(0.5, sample=False)
        if rounds == 20:  # by then every condition that will be raised is
            ready.set()
        await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def server():
    """The gRPC address of a controller that hears telemetry."""
    ready = threading.Event()
    with served() as controller:
        feeding = controller.begin(feed_on(controller.application, ready))
        assert ready.wait(110), feeding
        yield controller.grpc
        feeding.cancel()


@pytest.fixture(scope="module")
def deaf():
    """The gRPC address of a controller without a broker."""
    with served() as controller:
        yield controller.grpc


def test_top_once_shows_the_fullest_port_first_and_marks_the_silent_one(heddle, server):
    status, out, err = heddle("top", "--once", "--server", server)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert "3 ports by utilisation; 1 stale" in lines[0]
    busy, _, silent = lines[2:5]
    assert re.match(r"leaf1:1 +90.0% .* 25.0% +25 +6 +· +25.0% +64 KiB", busy)
    assert silent.split()[0] == "leaf2:1" or "stale" in out
    assert next(line for line in lines if line.startswith("leaf2:1")).rstrip().endswith("stale")


def test_top_prints_every_port_as_json(heddle, server):
    status, out, _ = heddle("top", "--once", "--json", "--sort", "port", "--server", server)
    board = json.loads(out)
    assert status == 0
    assert [row["port"] for row in board["ports"]] == ["h1-n0", "leaf1:1", "leaf2:1"]
    assert board["ports"][1]["utilisation"] == pytest.approx(0.9, rel=1e-3)


def test_top_of_named_ports_alone(heddle, server):
    status, out, _ = heddle("top", "h1-n0", "--once", "--json", "--server", server)
    assert (status, [row["port"] for row in json.loads(out)["ports"]]) == (0, ["h1-n0"])


def test_top_refuses_an_unknown_port_and_an_unknown_order(heddle, server):
    assert heddle("top", "leaf9:1", "--once", "--server", server)[::2] == (
        2,
        "heddle: ports: no port or NIC 'leaf9:1'; ports are named SWITCH:NUMBER, NICs by their ids\n",
    )
    status, _, err = heddle("top", "--sort", "size", "--once", "--server", server)
    assert (status, err.count("\n")) == (2, 1)


def test_top_without_a_broker_is_one_line_with_the_remedy(heddle, deaf):
    status, out, err = heddle("top", "--once", "--server", deaf)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "telemetry.broker" in err


def test_events_are_lines_with_time_severity_and_subject(heddle, server):
    status, out, err = heddle("events", "--since", "9999d", "--server", server)
    assert (status, err) == (0, "")
    assert re.search(
        r"^2026-09-\d\d \d\d:\d\d:\d\d\.\d{3}Z warning silent_raised leaf2: 1 of \d+ ports \(leaf2:1\): no fresh",
        out,
        re.MULTILINE,
    )
    assert "drop_raised leaf1:1:" in out


def test_events_are_json_objects_one_per_line(heddle, server):
    _, out, _ = heddle("events", "--since", "9999d", "--json", "--server", server)
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    assert "silent_raised" in kinds


def test_an_empty_event_log_is_one_line(heddle, deaf):
    assert heddle("events", "--server", deaf)[:2] == (
        0,
        "no events in the last 1h that the controller has kept\n",
    )


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3_600), ("7d", 604_800)])
def test_durations_are_read(text, seconds):
    now_ns = time.time_ns()
    assert since_ns(text, now_ns) == now_ns - seconds * 10**9


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1.5h", "1w", "1h ", "9999999999s", "١h"])
def test_an_invalid_duration_is_refused(text):
    with pytest.raises(InputError, match="not a duration"):
        since_ns(text, 1)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_cuts_no_number_on_a_screen_of(width):
    row = PortRates(
        port="pod12-leaf104:33", interval_s=1.0,
        utilisation=1.0, tx_bps=98.7e9, rx_bps=98.7e9, ecn_share=1.0, ecn_per_s=123_456,
        pfc_rx_per_s=123_456, pfc_tx_per_s=123_456, paused_share=1.0, depth_bytes=999 << 10, max_depth_bytes=999 << 20,
        drops_per_s=123_456, stale=True,
    )  # fmt: skip
    screen = io.StringIO()
    Console(width=width, file=screen).print(table([row], rows_shown=1, sort="port", width=width))
    text = screen.getvalue()
    assert "…" not in text
    assert text.rstrip().endswith("stale")
    assert all(part in text for part in ("pod12-leaf104:33", "100.0%", "98.7 Gbit/s", "123456", "999 KiB"))


@pytest.mark.parametrize(("below", "is_shown"), [(0.437, True), (0.0, False)])
def test_top_shows_how_far_jobs_are_from_the_goal_of_a_convergence(below, is_shown):
    screen = io.StringIO()
    plans = [pb.JobPlan(job_id="a", certificate=pb.Certificate(below_goal=below))]
    Console(width=120, file=screen).print(table([], rows_shown=1, sort="port", width=120, plans=plans))
    assert ("the mean speed of the jobs is 0.437 below" in screen.getvalue()) is is_shown
