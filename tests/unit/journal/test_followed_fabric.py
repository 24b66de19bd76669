"""A fabric in force with cables as they were found: its file stays the seed, over restarts and other files."""

from dataclasses import replace

import pytest

from heddle.controller.config.service import ServiceConfig
from heddle.controller.config.write import fabric_text
from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.controller.model.found_cabling import Rejoined, as_found, as_in_file, with_cables_found, with_found
from heddle.controller.runtime.journal.fitting import WHOLE, encoded, in_force
from heddle.controller.store.state_directory import StateDirectory
from heddle.programs.console.run import _first_fabric
from tests.support.fabrics.grown_files import LEAF_MORE, SLOWER, YARD
from tests.unit.journal.test_another_fabric import fabric_of


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
    assert as_in_file(FOLLOWED) == FILE
    assert as_in_file(FILE) is FILE


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
    assert as_in_file(found) == new
    assert as_found(found) == as_found(FOLLOWED)


def test_a_file_that_has_other_cables_there_is_taken_as_it_is():
    text = "\n".join(fabric_text(replace(FILE, cables=FOLLOWED.cables), numbered=True)) + "\n"
    for new in (fabric_of(text), fabric_of(YARD.replace("gbps: 40", "gbps: 100")), FILE):
        assert with_cables_found(new, FOLLOWED if new is not FILE else FILE) == new
    assert as_found(with_cables_found(fabric_of(SLOWER), FOLLOWED)) == as_found(FOLLOWED)


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
