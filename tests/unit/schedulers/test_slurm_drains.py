"""Nodes without a NIC that is up are drained, a few at most, and no reason of somebody else is touched."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.model.error import InputError, UnavailableError
from heddle.controller.schedulers.slurm_drains import NONE, REASON, down_hosts, drains, reasons_of
from heddle.programs.console.slurm import drainer as drainer_module
from heddle.programs.console.slurm.drainer import Drainer
from tests.support.examples import examples
from tests.support.fabrics.planner_cases import fabric_of

RAILS = {"kind": "rail_optimised", "leaves": 2, "hosts_per_leaf": 2, "nics_per_host": 2}


def test_a_host_is_down_if_all_of_its_compute_nics_are():
    fabric = fabric_of(**RAILS)
    links = {nic.up_link for nic in fabric.nics if nic.host == "h1"}
    assert down_hosts(fabric, links) == {"h1"}
    assert down_hosts(fabric, {min(links)}) == set()


@hypothesis_settings(max_examples=examples(60))
@given(
    st.dictionaries(
        st.sampled_from([f"h{n}" for n in range(40)]), st.sampled_from([NONE, REASON, "disk", "heddle: x"])
    ),
    st.sets(st.sampled_from([f"h{n}" for n in range(45)])),
)
def test_whatever_is_down_few_nodes_are_drained_and_only_our_own_are_resumed(reasons, down):
    steps = drains(reasons, down)
    assert all(reasons[node] == REASON and node not in down for node in steps.resume)
    assert all(reasons[node] == NONE and node in down for node in steps.drain)
    after = {node for node, reason in reasons.items() if reason == REASON} - set(steps.resume) | set(steps.drain)
    assert not steps.drain or len(after) <= max(1, len(reasons) // 10)
    assert bool(steps.too_many) == (not steps.drain and any(reasons.get(node) == NONE for node in down))


def test_a_sinfo_that_prints_something_else_is_refused():
    assert reasons_of("h1|none\nh2|disk | full\n") == {"h1": "none", "h2": "disk | full"}
    with pytest.raises(InputError, match="is no line of"):
        reasons_of("h1|none\nslurm_load_node error\n")


class Links:
    """Sixteen hosts of a fabric; those of `down` have no link."""

    def __init__(self):
        self.down: set[str] | None = set()

    def fabric(self):
        return fabric_of(leaves=4, hosts_per_leaf=4)

    def down_links(self):
        if self.down is None:
            raise UnavailableError("no reply")
        return {nic.up_link for nic in self.fabric().nics if nic.host in self.down}


@pytest.fixture
def slurm(monkeypatch):
    """Return the reasons of nodes, which `scontrol update` changes."""
    reasons = {f"h{n}": NONE for n in range(1, 17)}

    def run(*command):
        if command[0] == "sinfo":
            return "".join(f"{node}|{reason}\n" for node, reason in reasons.items())
        _, _, name, state, *more = command
        reasons[name.removeprefix("NodeName=")] = more[0].removeprefix("Reason=") if state == "State=DRAIN" else NONE
        return ""

    monkeypatch.setattr(drainer_module, "run_slurm", run)
    return reasons


def test_a_node_is_drained_at_the_second_check_resumed_when_it_is_back_and_errors_are_one_line(slurm):
    lines, links = [], Links()
    drainer = Drainer(lines.append)
    for now_s, down, drained in (
        (0, {"h3"}, False),
        (14, {"h3"}, False),  # within the period
        (15, set(), False),  # it was back
        (30, {"h3"}, False),
        (45, {"h3"}, True),
        (60, None, True),
        (75, None, True),
        (90, {"h1", "h2", "h3", "h4"}, True),
        (105, {"h1", "h2", "h3", "h4"}, True),  # too many
        (120, set(), False),
    ):
        links.down = down
        drainer.check(links, now_s)
        assert (slurm["h3"] == REASON) == drained, now_s
    assert set(slurm.values()) == {NONE}
    assert lines == [
        f"h3: State=DRAIN Reason={REASON}",
        "nodes are not checked: no reply",
        "3 nodes have no NIC that is up: too many to drain",
        "h3: State=RESUME",
    ]
