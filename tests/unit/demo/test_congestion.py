"""Congestion figures of an incast: values, table and report."""

import io
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from heddle.foundation.traffic_class import DATA
from heddle.mininet_topos.demo.report.page import report_page
from heddle.mininet_topos.demo.results.congestion import congestion_of
from heddle.mininet_topos.demo.results.summary import summary_lines
from heddle.mininet_topos.demo.results.table import print_result
from heddle.mininet_topos.measure.flow_run import NicCounters
from heddle.mininet_topos.traffic.workloads import INCAST, build_workloads
from heddle.telemetry.counter_page import PORT_FIELDS, PRIORITIES, QUEUE_FIELDS, CounterSnapshot
from tests.fakes.demo_results import demo_result, run, spine_leaf

FABRIC = spine_leaf()
(WORKLOAD,) = build_workloads(FABRIC, (INCAST,), (1,), 2.5)
NAMES = tuple(str(nic.port) for nic in FABRIC.nics)
START_NS = 1_000_000_000


def snapshot(milliseconds: int, **counts: int) -> CounterSnapshot:
    """Return counters of a moment after the run's start; all counts are of the port to the incast's receiver."""
    queues = np.zeros((len(NAMES), PRIORITIES, len(QUEUE_FIELDS)), np.uint64)
    row = NAMES.index(str(FABRIC.nic_by_id[WORKLOAD.flows[0].dst_nic].port))
    for field, value in counts.items():
        queues[row, DATA.priority, QUEUE_FIELDS.index(field)] = value
    return CounterSnapshot(
        names=NAMES,
        boot_id=1,
        sequence=milliseconds,
        timestamp_unix_ns=START_NS + milliseconds * 1_000_000,
        ports=np.zeros((len(NAMES), len(PORT_FIELDS)), np.uint64),
        queues=queues,
    )


def found_in(*snapshots: CounterSnapshot, nics: tuple[NicCounters, ...] = ()):
    return congestion_of(FABRIC, WORKLOAD, snapshots, START_NS, nics)


MARKED = found_in(
    snapshot(-10, ecn_marked_packets=5, paused_ns=7),
    snapshot(90, ecn_marked_packets=9, bytes=250_000, pfc_tx_frames=2, paused_ns=1_000_007, depth_bytes=40_000),
    snapshot(190, ecn_marked_packets=9, bytes=500_000, pfc_tx_frames=6, paused_ns=1_000_007, dropped_packets=3),
    nics=(NicCounters(np_cnp_sent=4, counters={"rx_prio3_pause_duration": 1500}),),
)


def with_incast():
    """Return a demo's results with one incast under ECMP and planned."""
    runs = [replace(run(FABRIC, WORKLOAD, mode), congestion=MARKED) for mode in ("ecmp", "planned")]
    result = demo_result()
    return replace(result, runs=(*result.runs, *runs))


RESULT = with_incast()


def printed(result, width=100):
    out = io.StringIO()
    print_result(result, Console(file=out, width=width))
    return out.getvalue()


def test_what_was_counted_before_the_start_is_left_out():
    assert (MARKED.marked_packets, MARKED.switch_paused_ns) == (4, 1_000_000)


def test_drops_frames_notifications_and_pauses_of_nics_are_added_up():
    assert (MARKED.dropped_packets, MARKED.pfc_frames, MARKED.cnps) == (3, 6, 4)
    assert MARKED.nic_paused_ns == 1_500_000
    assert MARKED.paused_ns == 2_500_000


def test_a_series_has_the_growth_of_every_interval_and_the_depth_at_its_end():
    series = MARKED.series
    assert series.times_ns == (90_000_000, 190_000_000)
    assert series.marked_packets == (4, 0)
    assert series.pfc_frames == (2, 4)
    assert series.depth_bytes == (40_000, 0)


def test_a_series_rate_is_of_the_intervals_own_length():
    assert MARKED.series.receiver_bps == (20_000_000, 20_000_000)
    assert MARKED.series.bystander_bps == (0, 0)


def test_snapshots_closer_than_an_interval_are_one_point():
    close = found_in(snapshot(0), snapshot(50, ecn_marked_packets=1), snapshot(100, ecn_marked_packets=2))
    assert close.series.marked_packets == (2,)


def test_a_run_that_was_over_before_a_second_snapshot_has_an_empty_series():
    assert found_in(snapshot(0)).series.times_ns == ()


def test_only_an_incast_has_the_columns_of_marks_and_pauses():
    assert "PFC" not in printed(demo_result())
    table = printed(RESULT).split("Many to one")[1]
    assert "PFC" in table
    assert "permutation" not in table.split("Certificates")[0]


@pytest.mark.parametrize("width", [100, 80])
def test_the_incasts_table_fits_the_terminal(width):
    text = printed(RESULT, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


def test_the_summary_says_what_the_bystander_got_under_each_mode():
    (line,) = [line for line in summary_lines(RESULT) if "bystander" in line]
    assert line.startswith("incast seed 1: the bystander got of its demand: ECMP ")
    assert "(6 PFC frames)" in line


def test_an_incast_is_no_part_of_the_gains_of_paths_alone():
    assert not any(line.startswith("incast: planned against") for line in summary_lines(RESULT))


def test_the_report_draws_time_series_for_an_incast_alone():
    assert 'class="series planned"' in report_page(RESULT)
    assert 'class="series planned"' not in report_page(demo_result())


def test_a_report_with_time_series_is_well_formed():
    ElementTree.fromstring(report_page(RESULT).removeprefix("<!DOCTYPE html>"))


def test_an_empty_series_is_drawn_as_axes_alone():
    nothing = found_in(snapshot(0))
    runs = [replace(run, congestion=nothing) for run in RESULT.runs[-2:]]
    page = report_page(replace(RESULT, runs=tuple(runs)))
    assert "<polyline" not in page
    assert "Deepest queue" in page


def test_the_results_hold_the_series():
    found = RESULT.to_json()["runs"]
    assert found[-1]["congestion"]["series"]["pfc_frames"] == (2, 4)
    assert found[0]["congestion"] is None
