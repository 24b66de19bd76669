"""Pins: flows whose source port cannot be chosen take their planned path."""

from heddle.controller.model.health import Health
from heddle.controller.model.rule import Cookie, CookieKind, Pin
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.pins import pin_rules
from heddle.controller.rules.trace import Packet, Tracer
from tests.unit.rules.builders import clos3, spine_leaf


def pin_along(fabric, links, port, job=7, generation=3):
    src = next(nic for nic in fabric.nics if nic.up_link == links[0])
    dst = next(nic for nic in fabric.nics if nic.down_link == links[-1])
    return Pin(
        src_ip=src.ip, dst_ip=dst.ip, udp_source_port=port, links=links, job_number=job, generation=generation
    )  # fmt: skip


PATH = (
    "h1-n0>pod1-leaf1:3",
    "pod1-leaf1:2>pod1-agg2:1",
    "pod1-agg2:6>core4:2",
    "core4:4>pod2-agg2:6",
    "pod2-agg2:2>pod2-leaf2:2",
    "pod2-leaf2:3>h4-n0",
)
CLOS = clos3(2, 2, 2, 2, core_links=2)


def test_a_pinned_flow_takes_its_path_at_every_switch_with_a_choice_parallel_cables_included():
    pin = pin_along(CLOS, PATH, 0xC000)
    tracer = Tracer(CLOS, compile_fabric(CLOS, layout_of(CLOS), Health(), [pin]))
    packet = Packet.roce(src_ip=pin.src_ip, dst_ip=pin.dst_ip, udp_src=0xC000)
    assert tracer.trace("h1-n0", packet).links == PATH
    assert tracer.trace("h1-n0", packet._replace(udp_src=0xC001)).links != PATH


def test_a_pin_without_a_port_takes_every_flow_of_the_pair():
    pin = pin_along(CLOS, PATH, None)
    tracer = Tracer(CLOS, compile_fabric(CLOS, layout_of(CLOS), Health(), [pin]))
    for port in (0xC000, 0xD123, 0xFFFF):
        assert tracer.trace("h1-n0", Packet.roce(src_ip=pin.src_ip, dst_ip=pin.dst_ip, udp_src=port)).links == PATH


def test_an_exact_pin_beats_the_pair_and_both_beat_exceptions():
    fabric = spine_leaf(3, 2, 1)
    paths = [("h1-n0>leaf1:4", f"leaf1:{s}>spine{s}:1", f"spine{s}:2>leaf2:{s}", "leaf2:4>h2-n0") for s in (1, 2)]
    pins = [pin_along(fabric, paths[0], None), pin_along(fabric, paths[1], 0xFFFF)]
    health = Health(down_cables=frozenset({"leaf2:1>spine1:2"}))
    tracer = Tracer(fabric, compile_fabric(fabric, layout_of(fabric), health, pins))
    src, dst = (nic.ip for nic in fabric.nics)
    assert tracer.trace("h1-n0", Packet.roce(src_ip=src, dst_ip=dst, udp_src=0xC000)).links == paths[0]
    assert tracer.trace("h1-n0", Packet.roce(src_ip=src, dst_ip=dst, udp_src=0xFFFF)).links == paths[1]


def test_a_pinned_uplink_that_dies_is_left_by_its_group():
    fabric = spine_leaf(3, 2, 1)
    path = ("h1-n0>leaf1:4", "leaf1:2>spine2:1", "spine2:2>leaf2:2", "leaf2:4>h2-n0")
    rules = compile_fabric(fabric, layout_of(fabric), Health(), [pin_along(fabric, path, 0xC000)])
    tracer = Tracer(fabric, rules, Health(down_cables=frozenset({"leaf1:2>spine2:1"})))
    src, dst = (nic.ip for nic in fabric.nics)
    assert tracer.trace("h1-n0", Packet.roce(src_ip=src, dst_ip=dst, udp_src=0xC000)).links[1] == "leaf1:3>spine3:1"


def test_a_pin_names_its_job_and_is_installed_only_where_there_is_a_choice():
    found = pin_rules(CLOS, [pin_along(CLOS, PATH, 0xC000, job=7, generation=3)])
    assert set(found) == {"pod1-leaf1", "pod1-agg2", "core4"}
    assert {rule.cookie for rules in found.values() for rule in rules} == {Cookie(CookieKind.PIN, 7, 3).pack()}


def test_pins_inside_one_leaf_need_no_rule():
    fabric = spine_leaf(2, 1, 2)
    assert pin_rules(fabric, [pin_along(fabric, ("h1-n0>leaf1:3", "leaf1:4>h2-n0"), 0xC000)]) == {}
