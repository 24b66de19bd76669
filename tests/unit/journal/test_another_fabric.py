"""A start with another fabric file: jobs go on where ports still lead over their paths, else the file is refused."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.brain.state import Job
from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric, PortRef, SteeredBy
from heddle.controller.model.health import Health
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import Plan
from heddle.controller.model.port_meaning import meaning_of
from heddle.controller.model.steering import former_layout, layout_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.solve import solve
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.runtime.journal import fitting, jobs
from heddle.controller.runtime.journal.restart import continued, numbered, remember_fabric, why_unfit
from tests.support.fabrics.grown_files import (
    LEAF_MORE,
    PARALLEL,
    SLOWER,
    SPINE_MORE,
    SPINES_BEYOND,
    THREE_SLOWER,
    THREE_SPINES,
    YARD,
)

NOW_MS = 1_000


class Held:
    """A store in memory that counts its writes."""

    place = "the store"

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], bytes] = {}
        self.writes = 0

    def read(self) -> Mapping[tuple[str, str], bytes]:
        return dict(self.values)

    def next_generation(self) -> int:
        raise AssertionError("a start that may refuse takes no generation")

    def check(self) -> None: ...

    def close(self) -> None: ...

    def write(self, values: Mapping[tuple[str, str], bytes | None]) -> None:
        self.writes += 1
        for key, content in values.items():
            self.values.pop(key, None)
            if content is not None:
                self.values[key] = content


def fabric_of(text: str) -> Fabric:
    return parse_fabric(text, "yard.yaml")


def kept(
    text: str = YARD, names=("mesh",), steering: str = "SOURCE_PORT", steered_by=SteeredBy.OPENFLOW, *, former=False,
    collective: str = "{kind: ALL_TO_ALL, bytes: 3000}",
) -> Held:  # fmt: skip
    """Return what a controller with a fabric file has written while jobs of these names run.

    `former` is a controller of before port layouts were kept.
    """
    fabric, store = replace(fabric_of(text), steered_by=steered_by), Held()
    if former:
        fabric = replace(fabric, port_layout=former_layout(fabric))
    state = numbered(begin(fabric), 1)
    for number, name in enumerate(names, 1):
        found = parse_jobs(
            f"version: 1\njobs: [{{job_id: {name}, ranks: {{all: true}}, steering: {steering}, "
            f"collectives: [{collective}]}}]\n",
            "jobs.yaml",
            fabric,
        )
        plan = solve(fabric, found, health=Health())
        assert isinstance(plan, Plan)
        job = Job(
            request=found[0], number=number, generation=1, state=JobState.RUNNING, reason="",
            lease_expires_unix_ms=0, flows=plan.jobs[0],
        )  # fmt: skip
        state = replace(state, jobs={**state.jobs, name: job})
    remember_fabric(state, store)
    if former:
        del store.values[fitting.LAYOUT]
    assert {key for key in store.values if key[0] == "job"} == {("job", name) for name in names}
    return store


def started(text: str, store: Held, steered_by=SteeredBy.OPENFLOW):
    return continued(begin(replace(fabric_of(text), steered_by=steered_by)), store, NOW_MS)


def refusal(text: str, store: Held) -> str:
    return refusal_of(fabric_of(text), store)


def refusal_of(fabric: Fabric, store: Held) -> str:
    """Return why a fabric is refused, with nothing written."""
    before = dict(store.values)
    writes = store.writes
    with pytest.raises(fitting.UnfitFabricError) as why:
        continued(begin(fabric), store, NOW_MS)
    assert (store.values, store.writes, why.value.exit_status) == (before, writes, 2)
    assert why_unfit(fabric, store.values, store.place) == str(why.value)
    assert "\n" not in str(why.value)
    return str(why.value)


@pytest.mark.parametrize(
    ("before", "text"),
    [(YARD, YARD), (YARD, LEAF_MORE), (YARD, SPINE_MORE), (YARD, SLOWER), PARALLEL, (THREE_SPINES, THREE_SLOWER)],
    ids=[
        "the same",
        "a leaf more",
        "a spine more",
        "half its rate",
        "a third cable beside two",
        "a quarter of its rate",
    ],
)
def test_jobs_go_on_with_the_paths_and_ports_that_they_had(before, text):
    store = kept(before)
    layout, same = layout_of(fabric_of(before)), text == before
    before, after = started(before, store), started(text, store)
    assert after.layout == layout_of(after.fabric) == layout
    assert [work.reason for work in after.queue] == ["the fabric file has changed"] * (not same)
    assert [(flow.links, flow.udp_source_port) for flow in after.jobs["mesh"].flows.flows] == [
        (flow.links, flow.udp_source_port) for flow in before.jobs["mesh"].flows.flows
    ]
    assert why_unfit(fabric_of(text), store.values, store.place) == ""


@pytest.mark.parametrize(
    ("former", "before", "after", "why"),
    [
        (
            True, THREE_SLOWER, THREE_SPINES,
            "leaf3 has 3 uplinks of 3 x 40 Gbit/s, ports were chosen for 2 x 40 and 1 x 10 Gbit/s",
        ),
        (True, PARALLEL[0], PARALLEL[1], "leaf1 has 3 uplinks, ports were chosen for 2 (and 1 more change)"),
        (
            False, YARD, SPINES_BEYOND,
            "leaf1 has 5 uplinks, and the ports of running jobs have room for 4 (and 2 more changes)",
        ),
    ],
    ids=["another rate", "a third cable beside two", "three spines more"],
)  # fmt: skip
def test_a_file_that_takes_flows_off_their_paths_is_refused_with_job_change_and_remedy(former, before, after, why):
    text = refusal(after, kept(before, former=former))
    assert text.startswith("the store: with this fabric file 1 running job, mesh (")
    assert f"because {why}: keep the former file, or end this job under it first (`heddle job release mesh`)" in text


def test_a_refusal_names_the_first_jobs_and_counts_the_others():
    text = refusal(SPINES_BEYOND, kept(names=("m1", "m2", "m3", "m4", "m5")))
    assert "5 running jobs, m1 (" in text
    assert "m3 (" in text
    assert "m4" not in text
    assert " and 2 more, would leave planned paths" in text


@pytest.mark.parametrize(
    ("nic", "leaf", "why"),
    [
        ("h1-n0", "leaf2", "h1-n0 and h2-n0 are on leaf2 and leaf1, and flow mesh/0/0-1/0 was planned within one leaf"),
        ("h3-n0", "leaf3", "NIC h3-n0 is on leaf3, and the path of flow mesh/0/0-2/0 is planned at leaf2"),
    ],
)
def test_a_nic_on_another_leaf_is_named(nic, leaf, why):
    fabric = fabric_of(YARD)
    nics = (replace(each, port=PortRef(leaf, 7)) if each.id == nic else each for each in fabric.nics)
    assert why in refusal_of(replace(fabric, nics=tuple(nics)), kept())


def test_any_file_starts_once_the_jobs_have_ended_and_then_counts_as_the_former():
    store = kept()
    del store.values["job", "mesh"]
    state = started(SPINE_MORE, store)
    remember_fabric(numbered(state, 2), store)
    assert fitting.kept_meaning(store.values) == meaning_of(state.fabric)
    assert not state.jobs


def test_a_journal_of_before_refuses_the_same_files_and_names_a_port():
    store = kept(former=True)
    del store.values[fitting.PORTS]
    assert started(YARD, store).jobs
    assert not started(YARD, store).queue
    assert started(LEAF_MORE, store).jobs
    text = refusal(SPINE_MORE, store)
    assert re.search(r"because ports \d+ and \d+ \(ACKs\) of flow mesh/0/\d-\d/0 no longer select leaf", text)


@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize("text", [YARD, PARALLEL[0], THREE_SPINES, THREE_SLOWER])
def test_a_journal_of_before_changes_no_rule_and_nothing_is_planned_anew(text, described):
    store, fabric = kept(text, former=True), fabric_of(text)
    if not described:
        del store.values[fitting.PORTS]
    state = started(text, store)
    assert state.underlay == compile_fabric(fabric, former_layout(fabric))
    assert not state.queue, "nothing has changed"
    remember_fabric(numbered(state, 2), store)
    assert started(text, store).layout == state.layout


def test_a_journal_of_before_gets_room_where_that_changes_no_rule():
    """In two tiers with equal uplinks, blocks are the same with room and without."""
    assert started(YARD, kept(former=True)).layout == layout_of(fabric_of(YARD))
    for after in (SPINE_MORE, SLOWER):
        assert started(after, kept(former=True)).layout == layout_of(fabric_of(YARD))
    five, six = (YARD.replace("spines: 2", f"spines: {count}") for count in (5, 6))
    assert started(six, kept(five, former=True)).layout == layout_of(fabric_of(five))
    for text in (PARALLEL[0], THREE_SLOWER):
        assert started(text, kept(text, former=True)).layout == former_layout(fabric_of(text))


def test_without_jobs_the_layout_is_that_of_the_file_again():
    store = kept()
    del store.values["job", "mesh"]
    state = started(SPINE_MORE, store)
    assert state.layout == layout_of(fabric_of(SPINE_MORE)) != layout_of(fabric_of(YARD))


def test_one_of_several_controllers_compares_its_fabric_with_that_of_the_journal():
    described = {fitting.PORTS: kept().values[fitting.PORTS]}
    assert fitting.is_of(fabric_of(YARD), described)
    assert not fitting.is_of(fabric_of(SPINE_MORE), described)
    assert not fitting.is_of(replace(fabric_of(YARD), steered_by=SteeredBy.HASH), described)
    assert not fitting.is_of(fabric_of(YARD), {})


def test_a_damaged_layout_is_refused():
    store = kept()
    store.values[fitting.LAYOUT] = b'{"fields":[]}'
    with pytest.raises(InputError, match="damaged or of a newer version"):
        started(YARD, store)


def test_a_description_of_a_newer_version_is_refused_as_such():
    store = kept()
    store.values[fitting.PORTS] = store.values[fitting.PORTS].replace(b'"version":1', b'"version":2,"later":0')
    with pytest.raises(InputError, match="damaged or of a newer version"):
        started(YARD, store)


def test_pinned_jobs_do_not_depend_on_ports():
    assert started(SPINE_MORE, kept(steering="PIN")).jobs


def test_where_switches_hash_ports_are_confirmed_again_with_another_file_and_only_then():
    store = kept(steered_by=SteeredBy.HASH)
    assert started(YARD, store, SteeredBy.HASH).settles_unix_ms is None
    other = started(SPINE_MORE, store, SteeredBy.HASH)
    assert other.jobs
    assert other.settles_unix_ms == NOW_MS + other.settings.settle_ms


def test_a_change_of_steering_is_no_matter_of_ports():
    assert "was planned with `steering: hash`" in refusal(YARD, kept(steered_by=SteeredBy.HASH))


def test_jobs_remain_as_they_were_encoded():
    store = kept()
    topology = topology_of(fabric_of(YARD))
    again = jobs.decode(topology, store.values["job", "mesh"], None)
    assert len(again.flows.flows) == 30
