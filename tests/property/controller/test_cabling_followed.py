"""Cables that are followed are where they are heard, the others stay, and put back they are those of the file again."""

from dataclasses import replace

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.cabling.diagnosis import diagnose
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.found_cabling import Rejoined, as_described, as_found, with_found
from tests.property.controller.test_cabling_causes import in_disorder
from tests.support.examples import examples
from tests.support.fabrics.planted_cabling import PlantedCabling
from tests.support.fabrics.small_fabrics import clos3, rails, spine_leaf


def ports_of(fabric: Fabric) -> list[PortRef]:
    return sorted(port for cable in fabric.cables for port in (cable.lower, cable.upper))


@hypothesis_settings(max_examples=examples(40))
@given(st.randoms(use_true_random=False))
def test_what_is_followed_is_heard_at_both_ends_and_nothing_else_differs_from_the_file(rng):
    file = rng.choice((spine_leaf(6, 8, 32), clos3(3, 2, 2, 4), rails()))
    cabling = in_disorder(rng, file)
    heard, up = cabling.hearings(rng.choice((0.0, 0.1, 0.5)))
    followed = with_found(file, diagnose(file, heard, up).rejoined)
    assert as_described(followed) == file
    assert len(set(ports_of(followed))) == len(ports_of(file))
    spare = {port for port in cabling.met if isinstance(port, PortRef)} - set(cabling.expected)
    role = {switch.id: switch.role for switch in file.switches}
    for cable, described in zip(followed.cables, file.cables, strict=True):
        assert cable.capacity_bps == described.capacity_bps
        if {cable.lower, cable.upper}.isdisjoint(spare):
            assert cable.lower == described.lower
        else:
            assert (cable.lower.switch, cable.upper.switch) == (described.lower.switch, described.upper.switch)
            assert cable.lower == described.lower or cable.upper == described.upper
        assert role[cable.upper.switch] is role[described.upper.switch]
        if cable != described:
            assert cabling.met[cable.lower] == cable.upper
            assert {cable.lower, cable.upper} <= heard.keys()
    assert diagnose(followed, heard, up).wrong.isdisjoint(as_found(followed))
    assert diagnose(followed, heard, up).rejoined == ()


@hypothesis_settings(max_examples=examples(40))
@given(st.randoms(use_true_random=False))
def test_exchanges_of_plugs_are_followed_whole_and_back(rng):
    file = rng.choice((spine_leaf(6, 8, 32), clos3(3, 2, 2, 4)))
    cabling = PlantedCabling(file, rng.randrange(1 << 30))
    for _ in range(rng.randrange(1, 4)):
        side = rng.choice(("lower", "upper"))
        tier = rng.choice(sorted({file.switch_by_id[getattr(each, side).switch].role for each in file.cables}))
        ends = [port for each in file.cables if file.switch_by_id[(port := getattr(each, side)).switch].role is tier]
        if side == "lower":  # their far ends are to be of one role too
            assert len({file.switch_by_id[file.cable_by_port[port].upper.switch].role for port in ends}) == 1
        chosen = rng.sample(ends, rng.choice((2, 3, 5)))
        cabling.move(dict(zip(chosen, [*chosen[1:], chosen[0]], strict=True)))
    followed = with_found(file, diagnose(file, *cabling.hearings()).rejoined)
    assert {(cable.lower, cable.upper) for cable in followed.cables} == {
        (cable.lower, cabling.met[cable.lower]) for cable in file.cables
    }
    back = with_found(followed, diagnose(followed, *PlantedCabling(file, 0).hearings()).rejoined)
    assert back == file


@hypothesis_settings(max_examples=examples(20))
@given(st.randoms(use_true_random=False))
def test_plugs_in_spare_ports_of_their_switches_are_followed_and_back(rng):
    file = rng.choice((spine_leaf(6, 8, 32), clos3(3, 2, 2, 4)))
    cabling = PlantedCabling(file, rng.randrange(1 << 30))
    moved = rng.sample(file.cables, rng.choice((1, 2, 5)))
    for cable in moved:
        plug = rng.choice((cable.lower, cable.upper))
        cabling.move({plug: PortRef(plug.switch, plug.number + 500)})
    heard, up = cabling.hearings()
    followed = with_found(file, diagnose(file, heard, up).rejoined)
    assert {cable.id for cable in file.cables} - {cable.id for cable in followed.cables} == {each.id for each in moved}
    assert all(cabling.met[cable.lower] == cable.upper for cable in followed.cables)
    assert diagnose(followed, heard, up).wrong == frozenset()
    assert with_found(followed, diagnose(followed, *PlantedCabling(file, 0).hearings()).rejoined) == file


@hypothesis_settings(max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_cables_keep_their_order_as_plugs_move_one_after_another_to_ports_that_are_free_then(rng):
    """Only plugs that are exchanged in the end change it: a chain of them leads back to where it begins."""
    file = rng.choice((spine_leaf(3, 3, 6), clos3(2, 2, 2, 2)))
    at = {port: port for port in ports_of(file)}
    fabric, switch = file, rng.choice(file.switches).id
    for _ in range(rng.randrange(1, 6)):
        plug = rng.choice([port for port in at if port.switch == switch])
        free = {port for port in at if port.switch == switch} | {PortRef(switch, 500), PortRef(switch, 501)}
        there = rng.choice(sorted(free - set(at.values())))
        cable, at[plug] = fabric.cable_by_port[at[plug]], there
        side = "lower" if cable.lower.switch == switch else "upper"
        fabric = with_found(fabric, [Rejoined((cable.id,), (replace(cable, **{side: there}),))])

    def place(was: PortRef) -> int:
        port = at[was]
        while port in at and port != was:
            port = at[port]
        return at[was].number if port == was else was.number

    for side, found, built in (
        ("lower", fabric.up_choices, file.up_choices),
        ("upper", fabric.down_cables, file.down_cables),
    ):
        wanted = sorted((getattr(cable, side) for cable in built[switch]), key=place)
        assert [getattr(cable, side) for cable in found[switch]] == [at[port] for port in wanted]
