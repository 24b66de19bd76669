import numpy as np

from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.proof.fluid import completion_ns
from tests.support.fabrics.planner_cases import custom, fabric_of, job_of

GBPS = 10**9


def test_turns_make_an_iteration_as_much_longer_as_there_are_slots():
    fabric = fabric_of()
    flows = expand(topology_of(fabric), [job_of(fabric, custom((0, 2, GBPS), (1, 3, GBPS), bytes=1000))])
    rates, slots = np.full(2, GBPS), np.array([1, 4])
    assert (completion_ns(flows, rates), completion_ns(flows, rates, slots)) == (8000, 32000)
