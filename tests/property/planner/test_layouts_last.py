"""A fabric that grows within the room of its port layout: no port of a running flow leads elsewhere, by the rules."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Cable, Fabric, PortRef, Role, Switch
from heddle.controller.model.fabric_change import changes_between
from heddle.controller.model.job import Steering
from heddle.controller.model.port_layout import PORT_BITS, Stage, blocks, choice_of, home_value, shares
from heddle.controller.model.port_meaning import layout_before, meaning_of, too_many
from heddle.controller.model.steering import former_layout, layout_of, reserved_layout
from heddle.controller.rules.compile import compile_fabric
from tests.property.planner.test_ports_keep_their_meaning import (
    changed,
    continued,
    free_port,
    is_even,
    job_of,
    off_their_paths,
    pairs_of,
    strayed,
)
from tests.support.examples import examples
from tests.unit.rules.builders import GBPS, clos3, spine_leaf
from tests.unit.rules.strategies import fabrics, failures, irregular


def joined(fabric: Fabric, lower: str, upper: str, bps: int) -> Fabric:
    """Return a fabric with a cable more, at free ports behind the others."""
    ends = (PortRef(lower, free_port(fabric, lower)), PortRef(upper, free_port(fabric, upper)))
    return replace(fabric, cables=(*fabric.cables, Cable(lower=ends[0], upper=ends[1], capacity_bps=bps)))


def twin(draw, fabric: Fabric, roles: set[Role]) -> Fabric:
    """Return a fabric with a twin of a switch of these roles: a cable more beside each of its own."""
    known = [switch for switch in fabric.switches if switch.role in roles]
    if not known:
        return fabric
    like, number = draw(st.sampled_from(known)), len(fabric.switches) + 1
    new = Switch(id=f"new{number}", role=like.role, datapath_id=1_000 + number)
    bps = draw(st.sampled_from([50, 100, 400])) * GBPS
    grown = replace(fabric, switches=(*fabric.switches, new))
    for cable in fabric.cables:
        if like.id in (cable.lower.switch, cable.upper.switch):
            lower, upper = (new.id if end.switch == like.id else end.switch for end in (cable.lower, cable.upper))
            grown = joined(grown, lower, upper, bps)
    return grown


def grown(draw, fabric: Fabric) -> Fabric:
    """Return a fabric after a change that may happen while jobs run."""
    kind = draw(st.sampled_from(["spine", "leaf", "agg", "parallel", "rate", "replaced"]))
    if kind in ("spine", "leaf", "agg"):
        roles = {Role.SPINE, Role.CORE} if kind == "spine" else {Role(kind)}
        return twin(draw, fabric, roles)
    if not fabric.cables:
        return fabric
    if kind == "parallel":
        cable = draw(st.sampled_from(fabric.cables))
        return joined(fabric, cable.lower.switch, cable.upper.switch, cable.capacity_bps)
    if kind == "rate":
        slower = draw(st.lists(st.sampled_from(fabric.cables), min_size=1, max_size=4))
        bps = draw(st.sampled_from([1, 50, 100, 400])) * GBPS
        cables = (replace(each, capacity_bps=bps) if each in slower else each for each in fabric.cables)
        return replace(fabric, cables=tuple(cables))
    other = draw(st.sampled_from(fabric.switches))
    switches = (replace(each, datapath_id=9_999) if each is other else each for each in fabric.switches)
    return replace(fabric, switches=tuple(switches))


@given(data=st.data(), fabric=fabrics().filter(lambda fabric: len(fabric.nics) > 1))
@settings(max_examples=examples(15), deadline=None)
def test_no_flow_leaves_its_path_while_the_fabric_grows_within_its_room(data, fabric):
    job = job_of(fabric, data.draw(pairs_of(fabric)), Steering.SOURCE_PORT)
    if job is None:
        return
    layout, other = layout_of(fabric), fabric
    for _ in range(data.draw(st.integers(1, 4))):
        more = grown(data.draw, other)
        other = more if not too_many(more, layout) else other
    other = replace(other, cables=tuple(data.draw(st.permutations(other.cables))), port_layout=layout)
    kept = continued(job, fabric, other)
    assert not any(off_their_paths(other, kept))
    assert not any(strayed(other, kept))


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(30), deadline=None)
def test_blocks_cover_a_field_once_at_the_share_of_each_choice_and_places_never_move(data, fabric):
    field = layout_of(fabric).fields[data.draw(st.sampled_from(Stage))]
    count = data.draw(st.integers(1, field.room))
    weights = tuple(data.draw(st.lists(st.sampled_from([1, 25, 50, 100, 400]), min_size=count, max_size=count)))
    taken = [0] * count
    for block in blocks(weights, field):
        taken[block.choice] += 1 << (field.width - block.length)
    assert sum(taken) == 1 << field.width
    assert tuple(taken) == shares(weights, field.width) or count == 1
    values = [home_value(weights, field, choice) for choice in range(count)]
    if count > 1:
        assert [choice_of(weights, field, value) for value in values] == list(range(count))
        assert [home_value((1,) * field.room, field, choice) for choice in range(count)] == values


@given(fabric=fabrics())
@settings(max_examples=examples(30), deadline=None)
def test_a_layout_depends_on_numbers_of_cables_alone_and_has_room_for_twice_as_many(fabric):
    layout = reserved_layout(fabric)
    slow = replace(fabric, cables=tuple(replace(each, capacity_bps=GBPS + i) for i, each in enumerate(fabric.cables)))
    assert reserved_layout(slow) == layout
    assert sum(field.width for field in layout.fields) <= PORT_BITS
    for stage, field in enumerate(layout.fields):
        most = max((len(cables) for cables in choices(fabric, stage)), default=0)
        assert field.room >= 2 * most or sum(field.width for field in layout.fields) == PORT_BITS
        assert field.room < 4 * max(most, 1)


def choices(fabric: Fabric, stage: int) -> list[tuple[Cable, ...]]:
    """Return the cables of each switch at a stage."""
    tier = 0 if stage == Stage.LEAF_UP else 1 if stage in (Stage.AGG_UP, Stage.AGG_DOWN) else 2
    of_tier = [switch.id for switch in fabric.switches if switch.role.tier == tier]
    if stage in (Stage.LEAF_UP, Stage.AGG_UP):
        return [fabric.up_choices[switch] for switch in of_tier]
    return [group.cables for switch in of_tier for group in fabric.down_groups[switch]]


@given(data=st.data(), fabric=st.one_of(fabrics(), irregular()))
@settings(max_examples=examples(30), deadline=None)
def test_a_layout_of_before_there_was_a_reserve_goes_on_rule_for_rule(data, fabric):
    former, health = former_layout(fabric), data.draw(failures(fabric))
    layout = layout_before(meaning_of(replace(fabric, port_layout=former)))
    assert compile_fabric(fabric, layout, health) == compile_fabric(fabric, former, health)


def test_a_regular_leaf_has_the_rules_and_ports_of_before_there_was_a_reserve():
    """Twice the room costs no rule: while choices are a power of two, each has one block."""
    for count in (1, 2, 4, 8, 16, 64, 3, 5, 60):
        fabric = spine_leaf(count, 2)
        weights = (100 * GBPS,) * count
        before, now = former_layout(fabric).fields[0], layout_of(fabric).fields[0]
        assert len(blocks(weights, now)) == len(blocks(weights, before))
        assert [home_value(weights, now, choice) << now.shift for choice in range(count)] == [
            home_value(weights, before, choice) << before.shift for choice in range(count)
        ]


def test_sixteen_by_sixteen_paths_of_three_tiers_have_room_for_twice_as_many_at_every_stage():
    layout = layout_of(clos3(2, 2, 16, 16))
    assert [field.room for field in layout.fields] == [32, 32, 2, 2]
    assert sum(field.width for field in layout.fields) == PORT_BITS - 2


@given(data=st.data(), fabric=fabrics().filter(lambda fabric: len(fabric.nics) > 1))
@settings(max_examples=examples(25), deadline=None)
def test_what_a_diff_calls_harmless_takes_no_flow_off_its_path(data, fabric):
    job = job_of(fabric, data.draw(pairs_of(fabric)), Steering.SOURCE_PORT)
    if job is None:
        return
    used = frozenset(link for flow in job.flows.flows for link in (*flow.links, *flow.reverse_links))
    other = data.draw(st.sampled_from([grown(data.draw, fabric), data.draw(changed(fabric, used))]))
    change = changes_between(fabric, other)
    assert change.is_none == (changes_between(other, fabric).is_none)
    if not change.harms and is_even(other):
        other = replace(other, port_layout=layout_of(fabric))
        assert not any(off_their_paths(other, continued(job, fabric, other)))
