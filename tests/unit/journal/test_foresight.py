"""A dry run of another fabric file says of each job what a start with that file does."""

from dataclasses import replace

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.model.fabric import PortRef, SteeredBy
from heddle.controller.runtime.journal.fitting import UnfitFabricError
from heddle.controller.runtime.journal.foresight import PLACE, Fate, JobFate, foreseen, running_of
from heddle.controller.runtime.journal.restart import continued
from tests.support.fabrics.grown_files import LEAF_MORE, PARALLEL, SLOWER, SPINE_MORE, SPINES_BEYOND, YARD
from tests.unit.journal.test_another_fabric import NOW_MS, fabric_of, kept, started
from tests.unit.journal.test_jobs_over_planes import PLANES


@pytest.mark.parametrize(
    ("before", "after", "fate"),
    [
        (YARD, YARD, Fate.NOTHING),
        (YARD, LEAF_MORE, Fate.NOTHING),
        (YARD, SPINE_MORE, Fate.NOTHING),
        (*PARALLEL, Fate.NOTHING),
        (YARD, SLOWER, Fate.SLOWER),
        (YARD, SPINES_BEYOND, Fate.NEW_PORTS),
        (YARD, YARD.replace("spines: 2", "spines: 1"), Fate.CUT_OFF),
        (YARD, YARD.replace("leaves: 3", "leaves: 2"), Fate.CUT_OFF),
    ],
    ids=["same", "leaf", "spine", "parallel", "slower", "beyond", "spine gone", "leaf gone"],
)
def test_a_job_has_the_fate_of_a_start_with_that_file(before, after, fate):
    store = kept(before)
    found = foreseen(running_of(started(before, store)), fabric_of(after))
    assert [(job.job_id, job.fate) for job in found.jobs] == [("mesh", fate)]
    try:
        continued(begin(fabric_of(after)), store, NOW_MS)
        why = ""
    except UnfitFabricError as refused:
        why = str(refused)
    assert found.refusal == why.replace(store.place, PLACE, 1)
    assert bool(found.refusal) == (fate in (Fate.NEW_PORTS, Fate.CUT_OFF))


def test_texts_say_how_many_flows_or_what_is_gone_or_slower():
    state = started(YARD, kept())
    (slower,) = foreseen(running_of(state), fabric_of(SLOWER)).jobs
    assert slower.text == "crosses 1 slower cable, such as leaf3:2>spine2:3"
    (beyond,) = foreseen(running_of(state), fabric_of(SPINES_BEYOND)).jobs
    text = f"{beyond.flows} of 30 flows would need other source ports"
    assert beyond == JobFate(job_id="mesh", fate=Fate.NEW_PORTS, flows=beyond.flows, text=text)
    assert beyond.flows
    (gone,) = foreseen(running_of(state), fabric_of(YARD.replace("spines: 2", "spines: 1"))).jobs
    assert gone.text == "job mesh has paths over a cable that is gone"


@pytest.mark.parametrize("planes", [1, 3])
def test_a_job_over_two_planes_is_cut_off_by_a_file_with_more_or_fewer(planes):
    ports = "ports: [" + ", ".join(f'{{port: "p{plane}-leafL:3", gbps: 100}}' for plane in range(planes)) + "]"
    nics = [
        f"  - {{id: h{n}, nics: [{{id: h{n}-n0, ip: 10.1.0.{4 * n}, {ports.replace('L', str(n))}}}]}}" for n in (1, 2)
    ]
    after = "\n".join((f"{PLANES.replace('planes: 2', 'planes: 3')}hosts:", *nics, ""))
    found = foreseen(running_of(started(PLANES, kept(PLANES))), fabric_of(after))
    (job,) = found.jobs
    assert (job.fate, job.text) == (Fate.CUT_OFF, "job mesh has flows split among a number of planes that is gone")
    assert "mesh has flows split among a number of planes" in found.refusal


def test_the_rules_that_change_are_those_of_the_layout_that_is_kept():
    state = started(YARD, kept())
    found = foreseen(running_of(state), fabric_of(LEAF_MORE))
    assert {one.switch for one in found.rules} == {"spine1", "spine2", "leaf4"}
    assert foreseen(running_of(state), fabric_of(YARD)).rules == ()


def test_a_drained_switch_that_is_gone_is_refused_by_name():
    state = replace(started(YARD, kept(names=())), drained=frozenset({"spine2"}))
    assert "spine2 is drained" in foreseen(running_of(state), fabric_of(YARD.replace("spines: 2", "spines: 1"))).refusal


def test_another_steering_is_refused_and_a_nic_elsewhere_is_named():
    state = started(YARD, kept())
    hashes = replace(fabric_of(YARD), steered_by=SteeredBy.HASH)
    assert "was planned with `steering: openflow`" in foreseen(running_of(state), hashes).refusal
    fabric = fabric_of(YARD)
    nics = tuple(replace(each, port=PortRef("leaf3", 7)) if each.id == "h1-n0" else each for each in fabric.nics)
    found = foreseen(running_of(state), replace(fabric, nics=nics))
    assert found.jobs[0].fate is Fate.NEW_PORTS
    assert "h1-n0 and h2-n0 are on leaf3 and leaf1" in found.refusal
