"""The passes over columns of flows find what a plain loop finds: layers of phases, rows that differ, shares of jobs."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.loads import layers_of
from heddle.controller.planner.ground.paths import differing_rows
from heddle.controller.planner.proof.certificate import own_utilisations
from tests.unit.brain.driver import shift_job, small_fabric

FLOWS = expand(topology_of(small_fabric()), [shift_job("a")])
RUNS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 3)), max_size=8)
PATHS = st.lists(st.lists(st.integers(-1, 5), min_size=4, max_size=4), min_size=1, max_size=9)


@given(RUNS, st.booleans())
def test_a_layer_is_one_phase_of_one_job_in_their_order(runs, rises):
    runs = sorted(runs) if rises else runs
    job, phase = (np.array([run[k] for run in runs for _ in range(run[2])], dtype=np.int64) for k in (0, 1))
    flows = replace(FLOWS.rows(np.zeros(len(job), dtype=np.int64)), job=job, phase=phase)
    pairs = list(zip(job.tolist(), phase.tolist(), strict=True))
    wanted = sorted(set(pairs))
    found = layers_of(flows)
    assert found.of_flow.tolist() == [wanted.index(pair) for pair in pairs]
    assert found.job.tolist() == [number for number, _ in wanted]


@given(PATHS, st.data())
def test_rows_differ_where_a_link_differs(one, data):
    other = data.draw(st.lists(st.sampled_from(one), min_size=len(one), max_size=len(one)))
    found = differing_rows(np.array(one), np.array(other))
    assert found.tolist() == [mine != theirs for mine, theirs in zip(one, other, strict=True)]


@given(PATHS, st.lists(st.floats(0, 9), min_size=6, max_size=6), st.data())
def test_a_job_is_as_full_as_the_fullest_link_of_its_paths(hops, used, data):
    job = sorted(data.draw(st.lists(st.integers(0, 3), min_size=len(hops), max_size=len(hops))))
    found = own_utilisations(np.array(job), np.array(hops), np.array(used), 4)
    links = [[used[link] for row, own in zip(hops, job, strict=True) if own == n for link in row if link >= 0]
             for n in range(4)]  # fmt: skip
    assert found == [max(each, default=0.0) for each in links]
