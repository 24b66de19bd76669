"""`heddle bench loop`, part apply: the larger file, and what is counted of reads and flows; without a process."""

import pytest

from heddle.benchmarks.loop.growth import Phase, Read, changed_flows, longest_gap_ms, rack_more
from heddle.benchmarks.loop.toggles import Wakes
from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric_change import changes_between
from heddle.controller.views.fabric_differences import differences

SHAPE = "kind: spine_leaf, spines: 2, leaves: 9, hosts_per_leaf: 3"


def test_the_larger_file_adds_one_leaf_with_its_cables_and_hosts_and_renames_nothing():
    before = parse_fabric(f"version: 1\nname: bench\ngenerate: {{{SHAPE}, gbps: 100}}\n", "before")
    added: dict[str, int] = {}
    for each in differences(changes_between(before, parse_fabric(rack_more(SHAPE), "after"))):
        added[each.kind] = added.get(each.kind, 0) + 1
    assert added == {"added_switches": 1, "added_cables": 2, "added_hosts": 3, "added_nics": 3}
    assert "generate" not in rack_more(SHAPE)


def test_a_gap_lasts_from_one_read_that_succeeded_to_the_next_over_those_that_failed():
    reads = [Read(1.0, 1.5, "OK"), Read(1.5, 1.75, "UNAVAILABLE"), Read(2.0, 2.5, "OK"), Read(2.5, 2.75, "OK")]
    assert longest_gap_ms(reads) == pytest.approx(1_000)
    assert longest_gap_ms(reads[1:2]) == 0


def test_reads_are_of_the_phase_in_which_they_began():
    reads = [Read(began, began + 5, "OK") for began in (0.5, 1.0, 1.5, 2.0)]
    assert [read.began for read in Phase(began=1.0, seconds=1.0, wakes=Wakes((), ())).of(reads)] == [1.0, 1.5]


def test_a_flow_with_another_port_and_one_that_is_gone_have_changed_and_one_of_a_new_job_has_not():
    before = {("a", "0"): ("up", 1), ("a", "1"): ("up", 2), ("b", "0"): ("up", 3)}
    after = {("a", "0"): ("up", 1), ("a", "1"): ("up", 9), ("new", "0"): ("up", 4)}
    assert changed_flows(before, after) == 2
