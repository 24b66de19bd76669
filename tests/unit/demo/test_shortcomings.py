from dataclasses import replace

from heddle.programs.lab.demo_command import shortcomings
from tests.fakes.demo_results import demo_result, with_invalid_run
from tests.fakes.demo_scenes import BUSY, FAILS, HOLDS, LATE, scene

RESULT = demo_result(seeds=(1,))


def test_a_demo_that_shows_everything_has_none():
    assert shortcomings(RESULT) == []


def test_an_invalid_planned_run_is_one():
    broken = with_invalid_run(RESULT, "ring seed 1", "planned", "7 packets are missing")
    assert shortcomings(broken) == ["ring seed 1: the planned run is invalid, twice: 7 packets are missing"]


def test_an_invalid_hashed_run_is_none():
    assert shortcomings(with_invalid_run(RESULT, "ring seed 1", "ecmp", "7 packets are missing")) == []


def test_a_planned_flow_off_its_path_is_one():
    index, run = next((i, run) for i, run in enumerate(RESULT.runs) if run.mode == "planned")
    flow = run.flows[0]
    stray = replace(flow, queue_pairs=(replace(flow.queue_pairs[0], faults=("1 packets on x, off its path",)),))
    runs = list(RESULT.runs)
    runs[index] = replace(run, flows=(stray, *run.flows[1:]))
    found = shortcomings(replace(RESULT, runs=tuple(runs)))
    assert found == ["permutation seed 1: 1 flows were not counted on exactly their planned links"]


def test_a_check_of_a_scene_that_does_not_hold_is_one():
    assert shortcomings(replace(RESULT, scenes=(scene(HOLDS, FAILS),))) == ["scene cut: 2 flows of 4 moved"]
    assert shortcomings(replace(RESULT, scenes=(scene(HOLDS),))) == []


def test_an_invalid_planned_run_of_a_scene_is_one_unless_the_machine_was_busy():
    lost = ("7 packets are missing",)
    assert shortcomings(replace(RESULT, scenes=(scene(HOLDS, problems=lost),))) == ["scene cut: 7 packets are missing"]
    assert shortcomings(replace(RESULT, scenes=(scene(HOLDS, problems=lost, machine=BUSY),))) == []


def test_a_scene_that_was_late_is_one_unless_the_machine_was_busy():
    assert shortcomings(replace(RESULT, scenes=(scene(HOLDS, LATE),))) == [f"scene cut: {LATE.text}"]
    assert shortcomings(replace(RESULT, scenes=(scene(HOLDS, LATE, machine=BUSY),))) == []
    assert shortcomings(replace(RESULT, scenes=(scene(FAILS, LATE, machine=BUSY),)))[0] == f"scene cut: {FAILS.text}"


def test_an_invalid_planned_run_on_a_busy_machine_is_none_unless_its_plan_or_its_rules_are_wrong():
    broken = with_invalid_run(RESULT, "ring seed 1", "planned", "7 packets are missing")
    runs = [replace(run, machine=BUSY) for run in broken.runs]
    assert shortcomings(replace(broken, runs=tuple(runs))) == []
    misled = [replace(run, faults=("off their links",)) if run.kind == "ring" else run for run in runs]
    assert "ring seed 1: off their links" in shortcomings(replace(broken, runs=tuple(misled)))
