from dataclasses import replace

from heddle.programs.lab.demo_command import shortcomings
from tests.fakes.demo_results import demo_result, with_invalid_run
from tests.fakes.demo_scenes import FAILS, HOLDS, scene

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


def test_an_invalid_planned_run_of_a_scene_is_one():
    broken = scene(HOLDS, problems=("3 packets arrived damaged",))
    found = shortcomings(replace(RESULT, scenes=(broken,)))
    assert found == ["scene cut: the planned run is invalid, twice: 3 packets arrived damaged"]
