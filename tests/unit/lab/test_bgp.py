"""BGP of a routed fabric: with its AS numbers a path-vector protocol converges on the routes of the fabric."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.address import ip_text
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.mininet_topos.host.registry import LabEntry
from heddle.mininet_topos.routed import frr
from heddle.mininet_topos.routed.bgp import FIRST_AS, as_numbers, configurations
from heddle.mininet_topos.routed.routes import Routes, Routing
from tests.support.fabrics.small_fabrics import clos3, spine_leaf

FABRICS = [spine_leaf(4, 4, 8), spine_leaf(2, 3, 6), clos3(2, 2, 2, 4)]


def converged(fabric, numbers, leaf, failed):
    """Return by switch the cables of its next hops to a leaf: a speaker announces its shortest AS path."""
    ends = [(cable, cable.lower.switch, cable.upper.switch) for cable in fabric.cables if cable.id not in failed]
    sessions = [*ends, *((cable, upper, lower) for cable, lower, upper in ends)]
    best = {leaf: ()}
    while True:
        heard = {}
        for cable, speaker, listener in sessions:
            if speaker in best and numbers[listener] not in (path := (numbers[speaker], *best[speaker])):
                heard.setdefault(listener, []).append((len(path), path, cable.id))
        heard.pop(leaf, None)
        new = {leaf: ()} | {listener: min(paths)[1] for listener, paths in heard.items()}
        if new == best:
            shortest = {listener: min(paths)[0] for listener, paths in heard.items()}
            return {
                name: {cable for size, _, cable in paths if size == shortest[name]} for name, paths in heard.items()
            }
        best = new


@given(st.sampled_from(FABRICS), st.data())
def test_routers_converge_on_paths_up_and_then_down_around_any_failed_cables(fabric, data):
    failed = data.draw(st.sets(st.sampled_from([cable.id for cable in fabric.cables]), max_size=6))
    leaf = data.draw(st.sampled_from(fabric.leaves))
    routes, cables = Routes(fabric, Routing.BGP), {}
    for cable in fabric.cables:
        cables[cable.lower] = cables[cable.upper] = cable.id
    found = converged(fabric, as_numbers(fabric), leaf, failed)
    for switch in fabric.switches:
        if switch.id != leaf:
            hops = {cables[hop.port] for hop in routes.hops(switch.id, leaf, failed)}
            assert found.get(switch.id, set()) == hops


@pytest.mark.parametrize("fabric", FABRICS)
def test_both_ends_of_every_cable_name_each_other_s_address_and_as_number(fabric):
    address_of, numbers = Routes(fabric, Routing.BGP).address_of, as_numbers(fabric)
    texts = configurations(fabric, address_of)
    for switch, text in texts.items():
        assert f"router bgp {numbers[switch]}\n" in text
        peers = dict(re.findall(r"neighbor (\S+) remote-as (\d+)", text))
        mine = [(cable.lower, cable.upper) for cable in fabric.cables]
        far = {own: other for pair in mine for own, other in (pair, pair[::-1]) if own.switch == switch}
        assert peers == {ip_text(address_of[end]): str(numbers[end.switch]) for end in far.values()}


def test_a_leaf_announces_its_nics_and_no_one_else_does():
    fabric = FABRICS[0]
    texts = configurations(fabric, Routes(fabric, Routing.BGP).address_of)
    announced = {switch: re.findall(r"  network (\S+)", text) for switch, text in texts.items()}
    for switch, networks in announced.items():
        assert networks == [f"{ip_text(nic.ip)}/32" for nic in fabric.nics_of_leaf.get(switch, ())]


def test_leaves_differ_in_their_as_numbers_and_the_switches_above_a_pod_share_one():
    numbers = as_numbers(clos3(2, 2, 2, 4))
    assert min(numbers.values()) == FIRST_AS
    assert len(set(numbers.values())) == 4 + 2 + 1
    for one in ("pod1-agg", "pod2-agg", "core"):
        assert len({number for switch, number in numbers.items() if switch.startswith(one)}) == 1


def test_router_ids_differ():
    fabric = FABRICS[2]
    texts = configurations(fabric, Routes(fabric, Routing.BGP).address_of).values()
    assert len({address for text in texts for address in re.findall(r"router-id (\S+)", text)}) == len(fabric.switches)


def test_more_cables_than_frr_has_next_hops_are_refused_with_the_switch():
    fabric = spine_leaf(257, 2, 2)
    with pytest.raises(InputError, match="leaf1 has more than 256 cables"):
        configurations(fabric, Routes(fabric, Routing.BGP).address_of)


def test_without_frr_the_remedy_is_named(monkeypatch, tmp_path):
    fabric = FABRICS[0]
    monkeypatch.setattr(frr, "PROGRAMS", tmp_path)
    with pytest.raises(PrerequisiteError, match=r"need FRR: run `apt-get install frr`"):
        frr.FrrRouters(fabric, Routes(fabric, Routing.BGP), LabEntry(id="0000", token="", directory=tmp_path), list)
