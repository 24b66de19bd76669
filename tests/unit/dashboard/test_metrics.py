"""Metrics of the controller: names, labels, limits, and the check by promtool."""

import asyncio
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import grpc
import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.dashboard import fabric_metrics, metrics
from heddle.controller.dashboard.exposition import label_text
from heddle.controller.dashboard.fabric_metrics import fabric_lines
from heddle.controller.model.effect import Note
from heddle.controller.runtime.limits.log_limit import LogLimit
from heddle.controller.runtime.ports import StoreError
from heddle.controller.runtime.telemetry import Telemetry
from tests.fakes.telemetry.telemetry_feed import START_NS, S, TelemetryFeed
from tests.support.controllers.bare_loop import sources_of
from tests.support.metrics_catalogue import markdown
from tests.unit.api.conftest import running
from tests.unit.api.test_job_service import message
from tests.unit.brain.driver import small_fabric
from tests.unit.dashboard.web_client import web

ROOT = Path(__file__).parents[3]
SAMPLE = re.compile(r'([a-z_:]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)\Z')


@pytest.fixture
def fed():
    """Telemetry with a busy switch port, a NIC, and a port that went silent."""
    telemetry = Telemetry()
    feed = TelemetryFeed(telemetry, small_fabric())
    feed.grow("leaf2:1", tx_bytes=1)
    feed.queue("leaf2:1", packets=1, depth_bytes=5)
    feed.scan()
    feed.scan(10, sample=False)
    for _ in range(2):
        feed.grow("leaf1:1", tx_bytes=10**9 // 16, rx_bytes=7, drops=2)
        feed.queue("leaf1:1", packets=9, ecn_marked_packets=4, pfc_rx_frames=6, paused_ns=S // 4, depth_bytes=4_096)
        feed.queue("h1-n0", pfc_tx_frames=3, paused_ns=2_000)
        feed.nic("h1-n0", np_cnp_sent=11)
        feed.scan(sample=False)
        feed.now_ns += S // 2
        feed.sample("leaf1:1", "h1-n0")
        feed.scan(0.5, sample=False)
    return feed


def text(feed):
    return "".join(metrics.metrics_text(sources_of(begin(small_fabric()), feed.telemetry), Counter()))


def samples(exposition):
    """Read every sample line back; fails on what is no sample."""
    found = {}
    for line in exposition.splitlines():
        if not line.startswith("#"):
            read = SAMPLE.match(line)
            assert read is not None, line
            name, labels, value = read.groups()
            assert (name, labels) not in found
            found[name, labels or ""] = float(value)
    return found


def test_ports_queues_and_nics_have_the_documented_names(fed):
    found = samples(text(fed))
    port = 'switch="leaf1",port="1"'
    queue, device = f'{port},priority="3"', 'host="h1",device="h1-n0",port="1"'
    for (name, labels), value in {
        ("fabric_port_transmit_bytes_total", port): 2 * (10**9 // 16),
        ("fabric_port_dropped_packets_total", port): 4,
        ("fabric_queue_ecn_marked_packets_total", queue): 8,
        ("fabric_port_pfc_rx_packets_total", queue): 12,
        ("fabric_port_pfc_paused_seconds_total", queue): 0.5,
        ("fabric_queue_depth_bytes", queue): 4_096,
        ("fabric_port_stale", port): 0,
        ("rdma_np_cnp_sent_total", device): 11,
        ("rdma_roce_pfc_pause_frames_total", f'{device},direction="tx",priority="3"'): 6,
        ("rdma_roce_pfc_pause_duration_total", f'{device},direction="rx",priority="3"'): 4,
    }.items():
        assert found[name, labels] == pytest.approx(value), name
    assert found["fabric_link_utilization_ratio", port] > 0


def test_a_silent_port_keeps_its_totals_and_loses_its_current_values(fed):
    found = samples(text(fed))
    port = 'switch="leaf2",port="1"'
    assert found["fabric_port_stale", port] == 1
    assert found["fabric_port_transmit_bytes_total", port] == 1
    assert found["fabric_port_sample_timestamp_seconds", port] == START_NS // S + 1
    assert ("fabric_queue_depth_bytes", f'{port},priority="3"') not in found
    assert ("fabric_link_utilization_ratio", port) not in found


def test_queues_that_never_counted_have_no_series(fed):
    assert {labels for name, labels in samples(text(fed)) if name == "fabric_queue_transmit_packets_total"} == {
        'switch="leaf1",port="1",priority="3"',
        'switch="leaf2",port="1",priority="3"',
    }


def test_ports_beyond_the_limit_are_left_out_whole_and_counted(fed):
    snapshot = fed.telemetry.ticks.value.snapshot
    limit = fabric_metrics.SERIES_PER_PORT + fabric_metrics.SERIES_PER_QUEUE
    found = samples("".join(fabric_lines(small_fabric(), snapshot, max_series=limit)))
    assert found["fabric_metrics_ports_left_out", ""] == 2
    ports = Counter(labels.split(",priority")[0] for name, labels in found if name != "fabric_metrics_ports_left_out")
    assert len(ports) == 1
    assert ports.total() <= limit


async def test_a_journal_that_fails_and_log_lines_left_out_are_seen_by_a_scrape(tmp_path, monkeypatch):
    async with running(state=str(tmp_path / "state")) as page:
        limit = LogLimit()
        page.application.suppressed_lines = lambda: limit.suppressed
        before = samples(await scraped(page))
        assert (before["heddle_journal_configured", ""], before["heddle_journal_failing", ""]) == (1, 0)
        assert before["heddle_log_suppressed_lines_total", ""] == 0
        limit.suppressed = 7

        def full(values):
            raise StoreError("no room")

        monkeypatch.setattr(page.application.gate.journal.store, "write", full)
        await page.connect_all()
        with pytest.raises(grpc.aio.AioRpcError):
            await page.jobs.SubmitJob(message())
        after = samples(await scraped(page))
        assert after["heddle_journal_failing", ""] == 1
        assert after["heddle_journal_failed_writes_total", ""] > before["heddle_journal_failed_writes_total", ""]
        assert after["heddle_log_suppressed_lines_total", ""] == 7
        monkeypatch.undo()
        async with asyncio.timeout(20):
            while samples(await scraped(page))["heddle_journal_failing", ""]:
                await asyncio.sleep(0.05)


async def scraped(page):
    async with web(page.addresses["http"]) as client:
        return (await client.get("/metrics")).text


def test_every_family_is_in_the_catalogue_once(fed):
    exposition = re.findall(r"^# TYPE (\S+)", text(fed), re.MULTILINE)
    families = [family.name for family in (*metrics.FAMILIES, *fabric_metrics.FAMILIES)]
    assert len(set(families)) == len(families)
    assert [name for name in exposition if exposition.count(name) > 1] == []
    assert set(families) - set(exposition) == {family.name for family in metrics.HISTORY.values()}


def test_the_page_of_metrics_is_current():
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert page == markdown(), "run: python -m tests.support.metrics_catalogue > docs/metrics.md"


def test_conditions_and_dropped_inputs_are_counted_by_kind(fed):
    fed.telemetry.counts = {"scans": 5, "received_messages": 7, "unknown_port": 3}
    found = samples(text(fed))
    assert found["heddle_conditions", 'kind="silent"'] == 1
    assert found["heddle_telemetry_messages_total", ""] == 7
    assert found["heddle_telemetry_odd_inputs_total", 'kind="unknown_port"'] == 3
    assert ("heddle_telemetry_odd_inputs_total", 'kind="scans"') not in found


def test_label_values_are_escaped():
    assert label_text(("port", 'a"b\\c\nd')) == 'port="a\\"b\\\\c\\nd"'


def promtool() -> str | None:
    return shutil.which("promtool") or shutil.which("promtool", path=ROOT / ".venv" / "bin")


@pytest.mark.skipif(promtool() is None, reason="no promtool here: `make setup` takes it out of Debian's prometheus")
def test_promtool_has_no_complaint(fed, tmp_path):
    fed.telemetry.counts = {"unknown_port": 3}
    fed.telemetry.note(Note(severity="info", subject="x", text="y"), 1)
    exposition = text(fed)
    checked = subprocess.run(
        [str(promtool()), "check", "metrics"], input=exposition, text=True, capture_output=True, timeout=60
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
