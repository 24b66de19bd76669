"""The measures of `heddle bench bmwg`, beside hand-computed ones."""

import numpy as np
import pytest

from heddle.benchmarks.planning.bmwg import balance, finish_s, job_of
from heddle.benchmarks.planning.cases import two_tiers
from heddle.benchmarks.planning.peers.problem import Answer, Problem, problem_of
from heddle.controller.model.health import Health
from heddle.controller.model.job import CollectiveKind

SPINES = 4


@pytest.fixture
def ring() -> Problem:
    """Two leaves of four NICs under four spines; a ring whose every flow leaves its leaf."""
    fabric = two_tiers(8, SPINES)
    return problem_of(fabric, [job_of(fabric, CollectiveKind.ALL_GATHER, [0, 4, 1, 5, 2, 6, 3, 7])], health=Health())


def answer(problem: Problem, spines: list[int]) -> Answer:
    """Return the flows over spines with these numbers: cables are numbered leaf by leaf, links down follow them."""
    cables = 2 * SPINES
    hops = np.full((len(problem.flows), 4), -1, dtype=np.int64)
    for row, spine in enumerate(spines):
        up = SPINES * int(problem.source[row]) + spine
        hops[row, :2] = up, cables + SPINES * int(problem.target[row]) + spine
    return Answer.of(problem, hops)


def test_even_paths_have_ratio_and_index_one_and_end_at_line_rate(ring: Problem) -> None:
    even = answer(ring, [0, 0, 1, 1, 2, 2, 3, 3])
    assert balance(ring, even, SPINES) == (1.0, 1.0, 1.0, 1.0)
    assert finish_s(ring, even).max() == pytest.approx(8 * 1e9 * 7 / 8 / 100e9)


def test_two_flows_on_one_of_four_uplinks_double_time_and_ratio(ring: Problem) -> None:
    uneven = answer(ring, [0, 0, 0, 1, 2, 2, 3, 3])  # from leaf 1 over spines 0, 0, 2, 3; from leaf 2 over 0 to 3
    assert balance(ring, uneven, SPINES) == pytest.approx((1.5, 2.0, (16 / 24 + 1) / 2, 16 / 24))
    assert finish_s(ring, uneven).max() == pytest.approx(2 * 8 * 1e9 * 7 / 8 / 100e9)
