"""Two generations of a plan become changes of running flows; the links that are down decide how a flow moves."""

from heddle.controller.model.plan import AdmissionWindow
from heddle.mininet_topos.measure.flow_run import FlowChange
from heddle.mininet_topos.measure.plan_changes import plan_changes
from heddle.v1 import heddle_pb2 as pb

VIA = {n: ["h1-n0>leaf1:3", f"leaf1:{n}>spine{n}:1", f"spine{n}:2>leaf2:{n}", "leaf2:3>h2-n0"] for n in (1, 2)}
BACK = {n: ["h2-n0>leaf2:3", f"leaf2:{n}>spine{n}:2", f"spine{n}:1>leaf1:{n}", "leaf1:3>h1-n0"] for n in (1, 2)}


def flow(spine: int = 1, back: int = 1, **more) -> pb.FlowPlan:
    values = {"udp_source_port": 0xC000 + spine, "reverse_udp_source_port": 0xD000 + back, "rate_bps": 10_000_000}
    return pb.FlowPlan(flow_id="f", links=VIA[spine], reverse_links=BACK[back], **{**values, **more})


def change(old, new, down=(), down_before=()):
    found = plan_changes({"f": old}, [new], down_before=down_before, down=down, reason="why")
    return found.get("f")


def test_a_flow_that_may_no_longer_exceed_its_plan_loses_its_floor():
    found = plan_changes(
        {"f": flow(work_conserving=True)}, [flow()], down_before=(), down=(), reason="",
        pace=lambda f: 20_000_000 if f.work_conserving else f.rate_bps,
        floor=lambda f: f.rate_bps if f.work_conserving else 0,
    )  # fmt: skip
    assert found["f"] == FlowChange(rate_bps=10_000_000, floor_bps=0)
    assert found["f"].for_requester()["floor_bps"] == 0


def test_a_flow_that_stays_the_same_is_not_changed():
    assert change(flow(), flow()) is None


def test_a_flow_between_live_paths_moves_as_planned_with_its_new_port_alone():
    assert change(flow(1), flow(2)) == FlowChange(udp_source_port=0xC002, move="planned", reason="why")


def test_a_flow_whose_path_has_a_link_that_is_down_moves_as_after_a_failure():
    assert change(flow(1), flow(2), down=["leaf1:1>spine1:1"]).move == "failure"


def test_so_does_one_whose_acknowledgements_crossed_that_link():
    found = change(flow(1, back=1), flow(1, back=2), down=["leaf2:1>spine1:2"])
    assert found == FlowChange(reverse_udp_source_port=0xD002, move="failure", reason="why")


def test_a_link_that_is_down_on_neither_path_makes_no_failure():
    assert change(flow(1), flow(2), down=["leaf3:1>spine1:3"]).move == "planned"


def test_a_link_that_was_down_at_the_generation_before_makes_the_move_one_after_a_failure():
    assert change(flow(1), flow(2), down_before=["leaf1:1>spine1:1"]).move == "failure"


def test_a_flow_whose_own_link_returns_sends_again_on_its_path():
    assert change(flow(1), flow(1), down_before=["leaf1:1>spine1:1"]) == FlowChange(move="failure", reason="why")


def test_a_flow_whose_new_path_is_down_as_well_does_not_send_again():
    assert change(flow(1), flow(1), down=["leaf1:1>spine1:1"]) is None


def test_a_pinned_flow_that_leaves_a_failed_link_sends_again_from_the_same_port():
    found = change(flow(1), flow(2, udp_source_port=0xC001), down=["leaf1:1>spine1:1"])
    assert found == FlowChange(move="failure", reason="why")


def test_a_flow_that_had_no_path_moves_as_after_a_failure():
    lost = flow(1)
    del lost.links[:]
    assert change(lost, flow(2)).move == "failure"


def test_a_new_rate_and_window_are_passed_on():
    window = pb.AdmissionWindow(slot=1, slots=4, slot_ns=1_000_000)
    found = change(flow(), flow(rate_bps=5_000_000, window=window))
    assert (found.rate_bps, found.window) == (5_000_000, AdmissionWindow(slot=1, slots=4, slot_ns=1_000_000))
    assert change(flow(window=window), flow()).window == AdmissionWindow(slot=0, slots=0, slot_ns=0)


def test_the_pace_decides_the_rate_of_a_new_generation():
    found = plan_changes(
        {"f": flow()}, [flow(rate_bps=8_000_000)], down_before=(), down=(), reason="", pace=lambda f: f.rate_bps // 2
    )
    assert found["f"].rate_bps == 4_000_000


def test_a_flow_that_the_plan_before_had_not_is_left_out():
    assert plan_changes({}, [flow()], down_before=(), down=(), reason="") == {}


def test_a_flow_whose_packets_name_their_path_gets_the_new_addresses():
    found = change(flow(1, sid="fcbb::1", reverse_sid="fcbb::3"), flow(2, sid="fcbb::2", reverse_sid="fcbb::3"))
    assert found == FlowChange(udp_source_port=0xC002, sid="fcbb::2", move="planned", reason="why")
    assert found.for_requester()["sid"] == "fcbb::2"
    assert found.for_responder() == {}
