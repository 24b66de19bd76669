"""A fabric in force with cables as they were found: its file stays the seed, over restarts and other files."""

import asyncio
from contextlib import closing
from dataclasses import replace

import pytest

from heddle.controller import parts
from heddle.controller.brain.cabling import following
from heddle.controller.config.service import ServiceConfig
from heddle.controller.config.write import fabric_text
from heddle.controller.model.cabling import Peer
from heddle.controller.model.event import Heard
from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.controller.model.found_cabling import Rejoined, as_described, as_found, with_cables_found, with_found
from heddle.controller.runtime.fabric_apply import FabricChangedError
from heddle.controller.runtime.journal.fitting import WHOLE, encoded, in_force
from heddle.controller.store.journal import SqliteStore
from heddle.controller.store.state_directory import StateDirectory
from heddle.programs.console.run import _first_fabric
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.fabrics.grown_files import LEAF_MORE, SLOWER, SPINE_MORE, YARD
from tests.unit.api.conftest import running
from tests.unit.journal.test_another_fabric import fabric_of
from tests.unit.journal.test_grown_fabric import MESH


def exchange(fabric: Fabric, first: str, second: str) -> Rejoined:
    """Return what is found where two cables have exchanged their upper plugs."""
    a, b = fabric.cable_by_link[first], fabric.cable_by_link[second]
    return Rejoined((first, second), (replace(a, upper=b.upper), replace(b, upper=a.upper)))


FILE = fabric_of(YARD)
FOUND = exchange(FILE, "leaf1:1>spine1:1", "leaf1:2>spine2:1")
FOLLOWED = with_found(FILE, [FOUND])


def test_only_the_cables_that_were_found_differ_and_the_file_is_known():
    assert as_found(FOLLOWED) == {"leaf1:1>spine2:1", "leaf1:2>spine1:1"}
    assert FOLLOWED.cable_by_port[PortRef("leaf1", 1)] == Cable(
        lower=PortRef("leaf1", 1), upper=PortRef("spine2", 1), capacity_bps=40_000_000_000
    )
    assert len(FOLLOWED.cables) == len(FILE.cables)
    assert as_described(FOLLOWED) == FILE
    assert as_described(FILE) is FILE


def test_following_back_gives_the_fabric_of_the_file():
    back = exchange(FOLLOWED, "leaf1:1>spine2:1", "leaf1:2>spine1:1")
    assert with_found(FOLLOWED, [back]) == FILE
    assert with_found(FOLLOWED, [exchange(FOLLOWED, "leaf2:1>spine1:2", "leaf2:2>spine2:2")]).described == FILE.cables


def test_the_journal_keeps_both_and_one_of_before_has_none():
    assert in_force({WHOLE: encoded(FOLLOWED)}) == FOLLOWED
    assert in_force({WHOLE: encoded(FILE)}) == FILE


@pytest.mark.parametrize("text", [YARD, LEAF_MORE], ids=["the same", "a leaf more"])
def test_another_file_gets_what_was_found(text):
    new = fabric_of(text)
    found = with_cables_found(new, FOLLOWED)
    assert as_described(found) == new
    assert as_found(found) == as_found(FOLLOWED)


def test_a_file_that_has_other_cables_there_is_taken_as_it_is():
    text = "\n".join(fabric_text(replace(FILE, cables=FOLLOWED.cables), numbered=True)) + "\n"
    assert with_cables_found(fabric_of(text), FOLLOWED) == fabric_of(text)
    assert with_cables_found(FILE, FILE) is FILE


def test_a_file_with_other_rates_has_them_at_the_cables_that_were_found():
    faster = with_cables_found(fabric_of(YARD.replace("gbps: 40", "gbps: 100")), FOLLOWED)
    assert as_found(faster) == as_found(FOLLOWED)
    assert {cable.capacity_bps for cable in faster.cables} == {100_000_000_000}
    assert as_found(with_cables_found(fabric_of(SLOWER), FOLLOWED)) == as_found(FOLLOWED)


MOVED = "leaf3:1>spine1:3"
SPARE = PortRef("leaf3", 9)
IN_SPARE = with_found(FILE, [Rejoined((MOVED,), (replace(FILE.cable_by_link[MOVED], lower=SPARE),))])


def test_a_cable_in_a_spare_port_is_as_found_and_another_file_gets_it_unless_that_uses_the_port():
    assert as_found(IN_SPARE) == {"leaf3:9>spine1:3"}
    assert as_described(IN_SPARE) == FILE
    assert in_force({WHOLE: encoded(IN_SPARE)}) == IN_SPARE
    assert as_found(with_cables_found(fabric_of(LEAF_MORE), IN_SPARE)) == as_found(IN_SPARE)
    cable = FILE.cable_by_link[MOVED]
    for there in (replace(cable, lower=SPARE), replace(cable, upper=PortRef("spine1", 9))):
        found = with_found(FILE, [Rejoined((MOVED,), (there,))])
        for of in ("up_choices", "down_cables"):
            was, now = getattr(FILE, of), getattr(found, of)
            assert {name: [(there if each.id == MOVED else each) for each in was[name]] for name in was} == {
                name: list(now[name]) for name in now
            }, "the other cables have the places that they had, so source ports mean the same"
    uses_it = fabric_of(SPINE_MORE)  # has a cable in leaf3:9
    assert with_cables_found(uses_it, IN_SPARE) == uses_it


@pytest.mark.parametrize(
    ("policy", "job", "wanted"),
    [("follow", False, FOLLOWED), ("exclude", False, FILE), ("exclude", True, FOLLOWED)],
    ids=["followed", "no longer followed", "no longer followed while a job runs"],
)
def test_a_start_with_the_file_continues_as_found_where_that_is_followed_or_used(tmp_path, policy, job, wanted):
    path, state = tmp_path / "yard.yaml", tmp_path / "state"
    path.write_text(YARD)
    directory = StateDirectory(state)
    store = directory.open()
    store.write({WHOLE: encoded(FOLLOWED)} | ({("job", "a"): b"{}"} if job else {}))
    store.close()
    directory.close()
    config = ServiceConfig(state=str(state), cabling=policy)
    assert _first_fabric(path, config) == wanted
    path.write_text(LEAF_MORE)
    if not job:
        assert _first_fabric(path, config) == fabric_of(LEAF_MORE)


def heard_in(fabric: Fabric) -> Heard:
    """Return what all ports hear in a fabric as it is plugged."""
    ends = [(cable.lower, cable.upper) for cable in fabric.cables]
    return Heard(changes={port: Peer(*far) for a, b in ends for port, far in ((a, b), (b, a))})


async def test_a_controller_follows_once_no_running_flow_is_harmed_by_it(tmp_path, monkeypatch):
    """Wrong cables stay in use here: leaf1 has no others."""
    monkeypatch.setattr(following, "STABLE_MS", 0)
    monkeypatch.setattr(parts, "processes", lambda fabric: (ThreadPlanner(fabric), ThreadCompiler(fabric)))
    async with running(FILE, state=str(tmp_path), cabling="follow") as found:
        await found.connect_all()
        await found.jobs.SubmitJob(MESH)
        loop = found.application.loop
        loop.post(heard_in(FOLLOWED))
        while not loop.state.cabling.unfollowed:
            await asyncio.sleep(0.02)
        assert "running flows cross leaf1:1>spine1:1, leaf1:2>spine2:1" in loop.state.cabling.unfollowed
        await found.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="mesh"))
        with pytest.raises(FabricChangedError) as why:
            await found.application.failed()
        assert why.value.life.fabric == FOLLOWED
        why.value.life.close()
    with closing(SqliteStore(tmp_path / "journal.sqlite")) as store:
        stored = store.read()
    assert in_force(stored) == FOLLOWED
    assert [kind for kind, _ in stored if kind == "follow"] == ["follow"]


async def test_without_a_journal_it_is_refused_and_said(monkeypatch):
    monkeypatch.setattr(following, "STABLE_MS", 0)
    async with running(FILE, cabling="follow") as found:
        await found.connect_all()
        loop = found.application.loop
        loop.post(heard_in(FOLLOWED))
        while not loop.state.cabling.unfollowed:
            await asyncio.sleep(0.02)
        assert "needs a journal" in loop.state.cabling.conditions[-1]
        topology = await found.fabric.GetTopology(pb.GetTopologyRequest())
        assert "needs a journal" in topology.wrong_in_use[-1]
        assert not any(link.as_found for link in topology.links)
