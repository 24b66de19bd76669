"""The paths of sprayed flows between plan, NIC and controller: ports that stay, ACKs over the same cables, reports."""

from typing import Any

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.srv6 import Sids
from heddle.mininet_topos.measure.flow_run import FlowChange, SprayPath
from heddle.mininet_topos.measure.observed_flows import observed_flows
from heddle.mininet_topos.measure.plan_changes import plan_changes
from heddle.mininet_topos.measure.spray_paths import no_paths, paths_on
from heddle.v1 import heddle_pb2 as pb
from tests.support.fabrics.path_sets import four_by_four, links_over
from tests.support.fabrics.small_fabrics import spine_leaf
from tests.support.packets.queue_pair_ends import MS
from tests.support.packets.sprayed import FIRST_PORT, spray_receiver, spray_sender

FABRIC = four_by_four()
SRC, DST = FABRIC.nics[0], FABRIC.nics[5]
SIDS = Sids(FABRIC)


def planned(*spines: int, weights: tuple[int, ...] = (), rate_bps: int = 9) -> pb.FlowPlan:
    paths = []
    for place, spine in enumerate(spines):
        links = links_over(FABRIC, SRC.id, DST.id, spine)
        sid = ipv6_text(SIDS.destination(links, DST.id))
        path = pb.Path(links=[SRC.up_link, *links, DST.down_link], weight=(weights or (1,) * 9)[place], sid=sid)
        paths.append(path)
    return pb.FlowPlan(
        flow_id="f", src_nic=SRC.id, dst_nic=DST.id, links=["a>b"], rate_bps=rate_bps,
        path_set=pb.PathSet(entries=4, paths=paths),
    )  # fmt: skip


def test_a_path_keeps_its_port_while_others_come_and_go():
    paths_of = paths_on(FABRIC)
    four, three = paths_of(planned(0, 1, 2, 3))[0], paths_of(planned(3, 1, 0))[0]
    assert len({path.udp_source_port for path in four}) == 4
    assert set(three) < set(four)


def test_acks_return_over_the_same_cables():
    back = paths_on(FABRIC)(planned(2, 0))[1]
    assert [path.sid for path in back] == [
        ipv6_text(SIDS.destination(links_over(FABRIC, DST.id, SRC.id, spine), SRC.id)) for spine in (2, 0)
    ]


def test_where_ports_select_paths_they_are_those_of_the_plan():
    flow = planned(0, 1, weights=(3, 1))
    for port, path in enumerate(flow.path_set.paths, start=50_000):
        path.udp_source_port = port
        path.ClearField("sid")
    flow.reverse_udp_source_port = 50_100
    there, back = paths_on(spine_leaf(2, 2, 4))(flow)
    assert there == (SprayPath(50_000, "", 3), SprayPath(50_001, "", 1))
    assert back == (SprayPath(50_100),)


def test_a_flow_without_a_set_has_no_paths():
    flow = pb.FlowPlan(flow_id="f", src_nic=SRC.id, dst_nic=DST.id)
    assert paths_on(FABRIC)(flow) == no_paths(flow) == ((), ())


def test_a_new_set_changes_paths_in_both_directions_and_the_rate():
    paths_of, before, after = paths_on(FABRIC), planned(0, 1, 2, 3, rate_bps=8), planned(0, 1, 3, rate_bps=6)
    nothing_down: Any = {"down_before": (), "down": (), "reason": "r", "paths_of": paths_of}
    (change,) = plan_changes({"f": before}, [after], **nothing_down).values()
    there, back = paths_of(after)
    assert change == FlowChange(rate_bps=6, paths=there, reverse_paths=back, reason="r")
    assert change.for_requester()["paths"] == [path._asdict() for path in there]
    assert change.for_responder() == {"paths": [path._asdict() for path in back]}
    assert plan_changes({"f": after}, [after], **nothing_down) == {}


def test_a_report_has_every_path_and_whether_it_is_denied():
    sids = [path.sid for path in paths_on(FABRIC)(planned(0, 1))[0]]
    paths = [{"udp_source_port": FIRST_PORT + place, "sid": sid} for place, sid in enumerate(sids)]
    sender = spray_sender(100, paths=paths, sid_source="fcbb::1")
    assert sender.path_changes == 0
    assert sender.on_unreachable(FIRST_PORT + 1, 0)
    assert sender.path_changes == 1
    listings = {nic.id: {"ip": "10.0.0.1", "timestamp_unix_ns": 1, "queue_pairs": []} for nic in FABRIC.nics}
    listings[SRC.id]["queue_pairs"] = [sender.describe()]
    (flow,) = observed_flows(FABRIC, listings)[SRC.host].flows
    assert [(path.sid, path.denied) for path in flow.paths] == [(sids[0], False), (sids[1], True)]


def test_a_probe_that_returns_is_not_yet_an_active_path():
    sender = spray_sender(100, 2)
    sender.selective.deny(FIRST_PORT, 0, "test")
    (path, number) = sender.paths.next_probe(200 * MS) or (None, 0)
    assert path is not None
    sender.paths.probed(path, 200 * MS)
    sender.paths.probe_returned(number, 201 * MS)
    assert [each["state"] for each in sender.describe()["paths"]] == ["probing", "active"]


def test_the_receiver_of_a_flow_answers_from_new_paths():
    receiver = spray_receiver(2)
    receiver.modify({"paths": [{"udp_source_port": 0xD00D}]})
    notification = receiver.on_marked(0)
    assert notification is None  # this NIC runs without DCQCN
    assert receiver.report()["np_ecn_marked_roce_packets"] == 1
