"""What squeue prints becomes jobs, and a job becomes a request."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import InputError
from heddle.controller.schedulers.slurm_jobs import (
    NicOfHost,
    Reconciler,
    nics_of_hosts,
    request_of,
    running_jobs,
    wanted_jobs,
)
from tests.support.examples import examples
from tests.support.schedulers.printed import SQUEUE_PRINTS

NICS = {f"h{n}": (NicOfHost(f"h{n}-n0", 0), NicOfHost(f"h{n}-n1", 1)) for n in range(1, 5)}


def test_jobs_arrays_and_heterogeneous_jobs_are_read_under_the_id_of_their_hooks():
    wanted = {4: ("h5", "h6", "h8"), 9: ("h3",), 12: ("h1", "h2")}
    assert running_jobs(SQUEUE_PRINTS) == running_jobs(SQUEUE_PRINTS + "10|10|\n") == wanted


def test_a_host_has_its_nics_with_all_their_ports():
    generate = "{kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, gbps: 100, planes: 2}"
    fabric = parse_fabric(f"{{version: 1, generate: {generate}}}", "fabric.yaml")
    assert nics_of_hosts(fabric) == {"h1": [NicOfHost("h1-n0", 0)], "h2": [NicOfHost("h2-n0", 0)]}


def test_names_of_nodes_are_read_as_slurm_compresses_them():
    assert running_jobs("7|7|r1n[09-10],gpu-[001,003]-ib,login\n") == {
        7: ("r1n09", "r1n10", "gpu-001-ib", "gpu-003-ib", "login")
    }


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_squeue_whose_output_is_cut_or_changed_lists_jobs_or_is_one_line(data):
    start, end = sorted(data.draw(st.lists(st.integers(0, len(SQUEUE_PRINTS)), min_size=2, max_size=2)))
    text = SQUEUE_PRINTS[:start] + data.draw(st.text(max_size=6)) + SQUEUE_PRINTS[end:]
    try:
        found = running_jobs(text)
    except InputError as error:
        assert str(error).isprintable()  # noqa: PT017 - a list of jobs is as well
        return
    assert all(isinstance(job, int) and nodes for job, nodes in found.items())


@pytest.mark.parametrize(
    "text",
    ["slurm_load_jobs error\n", "1|1\n", "1|1|h[2-1]\n", "1|1|h1\n\x00\n", "x|1|h1\n", "1|1|h1\n2|2|h"[:-1] + "[\n"],
)
def test_a_squeue_that_prints_something_else_is_refused_as_a_whole(text):
    with pytest.raises(InputError) as caught:
        running_jobs(text)
    assert str(caught.value).isprintable()


def test_a_list_without_end_is_refused():
    with pytest.raises(InputError, match="20,001 jobs"):
        running_jobs("1|1|h1\n" * 20_001)


def test_a_job_that_says_nothing_is_a_ring_on_each_rail_in_the_order_of_its_nodes():
    request = request_of(7, ["h3", "login", "h1"], NICS, 90_000)
    assert request is not None
    assert request.ranks == ("h3-n0", "h3-n1", "h1-n0", "h1-n1")
    assert [each.members for each in request.collectives] == [(0, 2), (1, 3)]
    assert request.lease_ms == 90_000


@pytest.mark.parametrize("nodes", [["h1"], ["h1", "login"], [], ["login", "other"]])
def test_a_job_on_fewer_than_two_hosts_of_the_fabric_is_not_planned(nodes):
    assert request_of(7, nodes, NICS, 1_000) is None
    assert wanted_jobs({7: nodes}, NICS, 1_000) == {}


def test_a_job_on_other_nodes_is_another_planned_job_and_one_on_the_same_nodes_the_same():
    ids = [*(job for last in "232" for job in wanted_jobs({7: ["h1", f"h{last}"]}, NICS, 1_000))]
    assert ids[0] == ids[2] != ids[1]
    assert all(each.startswith("slurm-7-") for each in ids)


def test_a_refused_request_is_tried_again_after_ever_longer_times_up_to_ten_minutes():
    reconciler, now_s, waits = Reconciler(90), 0.0, []
    wanted = wanted_jobs({7: ["h1", "h2"]}, NICS, 90_000)
    for _ in range(9):
        (request,) = reconciler.steps(wanted, (), now_s).submit
        reconciler.refused(request.job_id, now_s)
        assert reconciler.steps(wanted, (), now_s).submit == ()
        start_s = now_s
        while not reconciler.steps(wanted, (), now_s).submit:
            now_s += 1
        waits.append(now_s - start_s)
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert reconciler.waiting == 1
    reconciler.steps({}, (), now_s)
    assert reconciler.waiting == 0
