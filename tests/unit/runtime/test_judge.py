"""Which fabrics may not follow the one in force; test_fabric_apply.py of the journal has a refusal by a controller."""

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import InputError
from heddle.controller.runtime.journal.foresight import running_of
from heddle.controller.runtime.trial.judge import checked, judged
from tests.support.fabrics.grown_files import LEAF_MORE, SPINES_BEYOND, YARD
from tests.support.fabrics.planned_runs import text_of
from tests.unit.journal.test_another_fabric import fabric_of, kept, started

LISTED = text_of(parse_fabric(YARD, "yard"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (YARD.replace("spines: 2", "spines: 1"), "switch spine2 is in use: `heddle drain spine2` first"),
        (YARD.replace("hosts_per_leaf: 2", "hosts_per_leaf: 3"), "mesh"),
        (SPINES_BEYOND, "mesh"),
        (YARD.replace("name: yard", "name: other"), "name and steering of the fabric in force stay"),
        (YARD.replace("hosts_per_leaf: 2", "hosts_per_leaf: 1"), "mesh"),
        (LISTED.replace("leaf1", "rack1").replace("spine2", "top2"), "switch leaf1 is in use: `heddle drain leaf1`"),
        (LISTED.replace("-n0", "-eth0"), "mesh"),
    ],
    ids=["spine gone", "host more", "spines beyond", "other name", "host gone", "switches renamed", "NICs renamed"],
)
def test_a_fabric_that_does_not_fit_is_refused_in_one_line_at_first_and_again(text, words):
    running, fabric = running_of(started(YARD, kept())), fabric_of(text)
    for refusal in (judged(running, fabric).found.refusal, checked(running, fabric).refusal):
        assert words in refusal
        assert "\n" not in refusal


def test_one_that_fits_is_not_refused():
    running = running_of(started(YARD, kept()))
    assert checked(running, fabric_of(LEAF_MORE)).refusal == judged(running, fabric_of(LEAF_MORE)).found.refusal == ""


def test_a_link_to_a_switch_that_the_file_lacks_names_it_in_one_line():
    with pytest.raises(InputError, match=r"leaf9") as why:
        fabric_of(YARD + 'links: [{a: "leaf9:1", b: "spine1:9", gbps: 40}]\n')
    assert "\n" not in str(why.value)
