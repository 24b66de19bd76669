"""Two real NIC processes that spray over paths, each a source port: a path that drops is denied, and used again."""

from collections.abc import Iterator

import pytest

from heddle.mininet_topos.wire import roce
from tests.support.packets.nic_pair import NicPair, wait_for

pytestmark = pytest.mark.e2e

PORTS = (0xC000, 0xC001, 0xC002, 0xC003)
PATHS = [{"udp_source_port": port} for port in PORTS]


@pytest.fixture
def pair(tmp_path) -> Iterator[NicPair]:
    pair = NicPair(tmp_path, dcqcn=False)
    yield pair
    pair.close()


def source_port(frame: bytes | bytearray) -> int:
    return int.from_bytes(frame[34:36], "big")


def start(pair, size_bytes: int) -> None:
    """Begin one flow that sprays over all paths there, with ACKs over two."""
    common = {"first_psn": 0xFFFFFA, "traffic_class": 26 << 2 | 2, "peer_qpn": 0x200, "qpn": 0x100}
    requester = {
        **common, "peer_ip": "10.0.0.2", "peer_mac": "02:00:00:00:00:02", "udp_source_port": PORTS[0], "paths": PATHS,
        "rate_bps": 20_000_000, "size_bytes": size_bytes, "start_offset_ns": 0, "mtu_bytes": 4096,
        "message_bytes": 65536, "window": 128, "ack_every": 4, "timeout_ns": 5_000_000_000,
    }  # fmt: skip
    responder = {
        **common, "peer_ip": "10.0.0.1", "peer_mac": "02:00:00:00:00:01", "udp_source_port": 0xD000,
        "peer_qpn": 0x100, "qpn": 0x200, "paths": [{"udp_source_port": 0xD000}, {"udp_source_port": 0xD001}],
    }  # fmt: skip
    pair.call(0, op="open", requesters=[requester], responders=[])
    pair.call(1, op="open", requesters=[], responders=[responder])
    pair.call(0, op="run", start_ns=0)


def states(pair) -> list[str]:
    return [path["state"] for path in pair.report(0)["requesters"][0]["paths"]]


def test_a_path_that_drops_is_denied_and_used_again_and_all_data_arrives_once(pair):
    start(pair, 6_000_000)
    wait_for(lambda: len(pair.wire.of(0, roce.RC_RDMA_WRITE_ONLY)) > 40)
    pair.wire.rule = lambda frame: source_port(frame) != PORTS[1]
    wait_for(lambda: states(pair) == ["active", "denied", "active", "active"])
    pair.wire.rule = lambda _frame: True
    wait_for(lambda: states(pair) == ["active"] * 4)
    pair.finish()
    sender, receiver = pair.report(0)["requesters"][0], pair.report(1)["responders"][0]
    psns = {frame[51:54] for frame in pair.wire.of(0, roce.RC_RDMA_WRITE_ONLY)}
    assert receiver["delivered_bytes"] == 6_000_000
    assert len(psns) == sender["packets"] == receiver["delivered_packets"]
    assert 0 < sender["paths"][1]["lost_packets"] <= sender["retransmitted_packets"]
    assert [change["state"] for change in sender["path_changes"]] == ["denied", "active"]
    assert len(pair.wire.of(0, roce.RC_SEND_ONLY)) >= 3


def test_acknowledgements_that_are_lost_on_one_of_their_paths_stop_nothing(pair):
    pair.wire.rule = lambda frame: source_port(frame) != 0xD001
    start(pair, 1_000_000)
    pair.finish()
    sender = pair.report(0)["requesters"][0]
    assert states(pair) == ["active"] * 4
    assert sender["local_ack_timeout_err"] <= 2  # the last ACK of all may be one that is lost
    assert sender["retransmitted_packets"] <= 8
    assert {source_port(frame) for frame in pair.wire.of(1, roce.RC_ACKNOWLEDGE)} == {0xD000, 0xD001}


def test_new_paths_take_the_next_packet_and_one_that_stays_keeps_its_state(pair):
    pair.wire.rule = lambda frame: source_port(frame) != PORTS[1]
    start(pair, 4_000_000)
    wait_for(lambda: "denied" in states(pair))
    pair.call(0, op="modify", qpn=0x100, paths=[*PATHS[1:3], {"udp_source_port": 0xC00F}], rate_bps=10_000_000)
    assert states(pair) == ["denied", "active", "active"]
    at = len(pair.wire.frames)
    pair.finish()
    later = {source_port(frame) for _, side, frame in pair.wire.frames[at + 4 :] if side == 0 and frame[42] == 0x0A}
    assert later == {PORTS[2], 0xC00F}
    assert pair.report(1)["responders"][0]["delivered_bytes"] == 4_000_000


def test_paths_whose_weights_are_all_zero_are_refused_and_change_nothing(pair):
    start(pair, 400_000)
    pair.children[0].send_request(op="modify", qpn=0x100, paths=[{"udp_source_port": 0xC009, "weight": 0}])
    with pytest.raises(Exception, match="the weights of all paths are 0"):
        pair.children[0].read_reply()
    pair.finish()
    assert {source_port(frame) for frame in pair.wire.of(0, roce.RC_RDMA_WRITE_ONLY)} == set(PORTS)
