"""Suggested NICs suit the algorithm of a job: domains that take part with the same rails and ranks."""

import pytest

from heddle.controller.model.admission import problems
from heddle.controller.model.error import InputError
from heddle.controller.model.health import Health
from heddle.controller.model.job import Algorithm
from heddle.controller.model.placement import Shape
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.placement.suggest import suggest
from heddle.programs.console.suggest import collective_of
from tests.support.fabrics.planner_cases import fabric_of

RAILS = {"kind": "rail_optimised", "spines": 2, "leaves": 8, "hosts_per_leaf": 2, "nics_per_host": 4}


def shape(ranks: int) -> Shape:
    return Shape(ranks=ranks, collectives=(collective_of("ring_all_reduce", 1000, 1, "nccl"),))


@pytest.mark.parametrize("ranks", [4, 6, 8, 12, 16])
def test_a_suggestion_is_a_job_that_is_admitted_with_the_algorithm(ranks: int):
    fabric = fabric_of(**RAILS, hosts_per_nvlink_domain=1)
    found = suggest(fabric, shape(ranks), health=Health())
    assert not isinstance(found, Infeasible)
    for place in found:
        assert problems(shape(ranks).on(place.nics), fabric) == ()


def test_without_domains_there_is_no_place_and_the_reason_names_a_host():
    found = suggest(fabric_of(**RAILS), shape(8), health=Health())
    assert isinstance(found, Infeasible)
    assert "host h1 has no nvlink_domain in the fabric file" in found.why


def test_ranks_that_no_equal_hosts_hold_are_refused_with_the_hosts_that_are_unequal():
    found = suggest(fabric_of(**RAILS, hosts_per_nvlink_domain=1), shape(5), health=Health())
    assert isinstance(found, Infeasible)
    assert "the hosts of the job are unequal" in found.why


def test_an_algorithm_is_named_in_any_case_and_a_wrong_name_is_one_line():
    assert collective_of("all_to_all", 1, 1).algorithm is Algorithm.CONTRACT
    assert collective_of("all_to_all", 1, 1, "nccl_no_pxn").algorithm is Algorithm.NCCL_NO_PXN
    with pytest.raises(InputError, match="--algorithm: 'ncl' is not an algorithm, did you mean NCCL"):
        collective_of("all_to_all", 1, 1, "ncl")
