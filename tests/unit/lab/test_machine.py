import os
import time
from dataclasses import replace

import pytest

from heddle.mininet_topos.host.machine import MachineMeter, MachineSample, MachineUse, use_between
from heddle.mininet_topos.measure.flow_run import NicCounters
from heddle.mininet_topos.measure.machine_watch import with_lateness
from heddle.mininet_topos.nic.lateness import MIN_LATE_NS, Lateness

S = 1_000_000_000
BEFORE = MachineSample(
    monotonic_ns=10 * S, processors=2, stolen_ns=5 * S, used_ns=100 * S, lab_used_ns=20 * S,
    waited_ns={7: 1 * S, 8: 3 * S}, pressure_ns=50 * S,
)  # fmt: skip
AFTER = MachineSample(
    monotonic_ns=14 * S, processors=2, stolen_ns=6 * S, used_ns=107 * S, lab_used_ns=22 * S,
    waited_ns={7: 2 * S, 8: 3 * S, 9: 90 * S}, pressure_ns=53 * S,
)  # fmt: skip


def test_what_a_machine_gave_is_what_grew_between_two_samples():
    assert use_between(BEFORE, AFTER) == MachineUse(
        seconds=4.0, processors=2, stolen_share=1 / 8, others_processors=5 / 4, lab_processors=1 / 2,
        waited_share=1 / 4, pressure_share=3 / 4,
    )  # fmt: skip


def test_processes_of_a_lab_that_have_ended_make_no_figure_negative():
    found = use_between(BEFORE, replace(AFTER, lab_used_ns=0, waited_ns={}, used_ns=100 * S))
    assert (found.lab_processors, found.others_processors, found.waited_share) == (0, 0, 0)


@pytest.mark.parametrize("sample", [BEFORE, AFTER])
def test_without_pressure_figures_of_the_kernel_there_are_none(sample):
    pair = [replace(one, pressure_ns=None) if one is sample else one for one in (BEFORE, AFTER)]
    assert use_between(*pair).pressure_share is None


def test_this_process_counts_as_the_labs_and_its_use_not_as_that_of_others():
    before, begun = os.times(), time.monotonic()
    meter = MachineMeter("no-such-lab")
    while sum(os.times()[:2]) - sum(before[:2]) < 0.1:
        pass
    found = meter.since_start()
    assert found.lab_processors * found.seconds == pytest.approx(0.1, abs=0.06)
    assert found.seconds <= time.monotonic() - begun


def test_a_nic_is_late_by_what_it_wakes_up_after_its_time_and_timers_count_for_nothing():
    lateness = Lateness()
    for due_ns, now_ns in (
        (S, S + 30_000_000),
        (2 * S, 2 * S + MIN_LATE_NS - 1),
        (3 * S, 2 * S),
        (4 * S, 4 * S + 9_000_000),
    ):
        lateness.woke(due_ns, now_ns)
    lateness.woke(float("inf"), 5 * S)
    assert (lateness.total_ns, lateness.max_ns) == (39_000_000, 30_000_000)
    lateness.reset()
    assert (lateness.total_ns, lateness.max_ns) == (0, 0)


def test_the_lateness_of_a_run_is_that_of_its_latest_nic():
    nics = [NicCounters(late_ns=9, max_late_ns=4), NicCounters(late_ns=5, max_late_ns=5), NicCounters()]
    found = with_lateness(MachineUse(seconds=1.0, processors=2), nics)
    assert (found.late_ns, found.max_late_ns) == (9, 5)
    assert with_lateness(found, []).max_late_ns == 0
