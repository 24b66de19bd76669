"""What may be cut and healed in a lab, and that one workload runs at a time; without a real lab."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from heddle.controller.model.error import HeddleError
from heddle.mininet_topos.playground import lab as playground_lab
from heddle.mininet_topos.playground.fabric import lab_fabric
from heddle.mininet_topos.playground.lab import Playground
from heddle.mininet_topos.playground.traffic import traffic_request

CABLE, BACK = "leaf1:1>spine1:1", "spine1:1>leaf1:1"


@pytest.fixture
def playground() -> Any:
    return without_a_lab(1)


@pytest.fixture
def planes() -> Any:
    return without_a_lab(2)


def without_a_lab(planes: int) -> Any:
    found: Any = Playground(lab_fabric(None, planes))
    found.done = []
    found.lab = SimpleNamespace(
        id="abcd", fabric=found.lab.fabric, end_flows=lambda: None,
        net=SimpleNamespace(set_cable=lambda cable, up: found.done.append((cable, up))),
    )  # fmt: skip
    found._is_up = True
    found._client = SimpleNamespace(await_link=lambda link, up: found.done.append((link, up, "known")))
    return found


def test_a_cable_is_cut_and_healed_by_either_of_its_links_and_the_controller_knows(playground):
    assert playground.cut(BACK)[0].id == CABLE
    assert playground.heal(CABLE)[0].id == CABLE
    assert playground.done == [(CABLE, False), (CABLE, False, "known"), (CABLE, True), (CABLE, True, "known")]


@pytest.mark.parametrize(
    ("operation", "link", "problem", "status"),
    [
        ("cut", BACK, r"^leaf1:1>spine1:1 is cut already; repair it with `heddle lab heal 'leaf1:1>spine1:1'`$", 1),
        ("heal", "leaf2:1>spine1:2", r"^leaf2:1>spine1:2 is not cut; cut are: leaf1:1>spine1:1$", 2),
        ("cut", "leaf1:1>spine1:2", r"^no link 'leaf1:1>spine1:2' in this lab, did you mean ", 2),
        ("heal", "x", r"^no link 'x' in this lab; `heddle topology` lists them$", 2),
        ("cut", "h1-n0", r"^h1-n0 is a NIC; a lab cuts cables between switches, such as leaf1:1>spine1:1$", 2),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(playground, operation, link, problem, status):
    playground.cut(CABLE)
    before = list(playground.done)
    with pytest.raises(HeddleError, match=problem) as refusal:
        getattr(playground, operation)(link)
    assert refusal.value.exit_status == status
    assert playground.done == before


def test_the_cable_of_a_port_is_cut_and_healed_by_its_id(planes):
    assert planes.cut("h1-n0/p0")[0].id == "h1-n0/p0"
    assert planes.heal("h1-n0/p0")[0].id == "h1-n0/p0"
    link = "h1-n0/p0>p0-leaf1:3"
    assert planes.done == [("h1-n0/p0", False), (link, False, "known"), ("h1-n0/p0", True), (link, True, "known")]


@pytest.mark.parametrize("link", ["h1-n0/p0>p0-leaf1:3", "p0-leaf1:3>h1-n0/p0"])
def test_the_cable_of_a_port_is_cut_by_either_of_its_links(planes, link):
    assert planes.cut(link)[0].id == "h1-n0/p0"


def test_a_nic_with_several_ports_is_no_cable(planes):
    with pytest.raises(
        HeddleError, match=r"^h1-n0 is a NIC with several ports: name one of them, h1-n0/p0 or h1-n0/p1$"
    ):
        planes.cut("h1-n0")


def test_a_workload_of_nics_with_one_port_is_refused_over_planes(planes):
    with pytest.raises(HeddleError, match=r"^hog needs NICs of one port; over planes run permutation, ring,"):
        planes.run(traffic_request("hog", True, 5, None, 1), print)


def test_a_second_workload_is_refused_until_the_first_has_ended(playground, monkeypatch):
    running, end = threading.Event(), threading.Event()

    def run(*_arguments):
        running.set()
        assert end.wait(20)

    monkeypatch.setattr(playground_lab, "run_traffic", run)
    request = traffic_request("ring", True, 5, None, 1)
    first = threading.Thread(target=playground.run, args=(request, print))
    first.start()
    assert running.wait(20)
    with pytest.raises(HeddleError, match=r"^ring, planned, is running, for another \d s; end it by Ctrl-C"):
        playground.run(request, print)
    end.set()
    first.join(20)
    playground.run(request, print)


def test_a_workload_that_outlives_its_lab_has_no_result(playground, monkeypatch):
    monkeypatch.setattr(playground_lab, "run_traffic", lambda *_: playground.stop())
    monkeypatch.setattr(playground_lab, "END_TIMEOUT_S", 0.01)
    with pytest.raises(HeddleError, match=r"^lab abcd has ended$"):
        playground.run(traffic_request("ring", True, 5, None, 1), print)
