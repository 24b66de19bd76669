"""Two real NIC processes over a wire that marks, pauses and drops; their frames and counters are checked."""

import json
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import groupby

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.l2 import Ether

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.pause_frame import pause_frame
from tests.support.packets.nic_pair import LINE_BPS, NicPair, pcap, wait_for

pytestmark = pytest.mark.e2e

SWITCH = bytes.fromhex("02ff00000001")
DATA = tuple(roce.DATA)


@pytest.fixture
def pair(tmp_path) -> Iterator[NicPair]:
    pair = NicPair(tmp_path)
    yield pair
    pair.close()


def mark(frame: bytearray) -> bool:
    """Mark a frame that is ECN-capable, as a switch under load does."""
    if frame[15] & roce.ECN_MASK:
        frame[15] |= roce.CONGESTION_EXPERIENCED
    return True


def pass_on(_frame: bytearray) -> bool:
    return True


def psns(frames: list[bytes]) -> list[int]:
    return [int.from_bytes(frame[51:54], "big") for frame in frames]


def has_sent(pair, packets) -> bool:
    """Return whether the first NIC has sent more than `packets` data packets."""
    return len(pair.wire.of(0, *DATA)) > packets


def test_marks_lower_the_rate_and_without_them_it_returns(pair):
    pair.wire.rule = mark
    pair.start({"size_bytes": 6_000_000})
    wait_for(lambda: pair.report(0)["requesters"][0]["rate_bps"] < LINE_BPS / 3)
    pair.wire.rule = pass_on
    wait_for(lambda: pair.report(0)["requesters"][0]["rate_bps"] == LINE_BPS)
    pair.finish()
    sender, receiver = pair.report(0), pair.report(1)
    marked = [frame for frame in pair.wire.of(0, *DATA) if frame[15] & 3 == 3]
    assert receiver["np_ecn_marked_roce_packets"] == len(marked)
    assert sender["rp_cnp_handled"] == receiver["np_cnp_sent"] == len(pair.wire.of(1, roce.CNP)) > 1
    assert (sender["requesters"][0]["retransmitted_packets"], receiver["out_of_sequence"]) == (0, 0)
    assert receiver["responders"][0]["delivered_bytes"] == 6_000_000


def test_cnps_take_the_planned_reverse_path_at_their_own_priority(pair):
    pair.wire.rule = mark
    pair.start({"size_bytes": 400_000})
    pair.finish()
    packets = [roce.parse(bytearray(frame), len(frame)) for frame in pair.wire.of(1, roce.CNP)]
    assert {(p.udp_source_port, roce.priority(p.traffic_class), p.destination_qp) for p in packets if p} == {
        (0xD000, 6, 0x100)
    }
    # One per packet at most: on a slow machine packets come an interval apart (the interval has tests of its own).
    assert 0 < len(packets) <= len(pair.wire.of(0, *DATA))


def test_a_nic_without_dcqcn_neither_sends_cnps_nor_reacts_to_them(tmp_path):
    pair = NicPair(tmp_path, dcqcn=False)
    try:
        pair.wire.rule = mark
        pair.start({"size_bytes": 200_000})
        writer = roce.FrameWriter(
            roce.Route(SWITCH, bytes.fromhex("020000000001"), 0x0A000002, 0x0A000001, 0xD000, 0x100, 0)
        )
        pair.wire.inject(0, bytes(writer.congestion_notification()))
        pair.finish()
        sender, receiver = pair.report(0), pair.report(1)
    finally:
        pair.close()
    assert (sender["rp_cnp_handled"], sender["rp_cnp_ignored"], sender["requesters"][0]["rate_bps"]) == (0, 1, LINE_BPS)
    assert (receiver["np_cnp_sent"], receiver["np_ecn_marked_roce_packets"]) == (0, 49)


def test_a_pause_stops_data_until_xon(pair):
    pair.start({"size_bytes": 2_000_000, "window": 512})
    wait_for(lambda: len(pair.wire.of(0, *DATA)) > 20)
    hold = threading.Event()

    def keep_paused() -> None:
        while not hold.wait(0.2):
            pair.wire.inject(0, pause_frame(SWITCH, {3: 0xFFFF}))

    refresher = threading.Thread(target=keep_paused, daemon=True)
    pair.wire.inject(0, pause_frame(SWITCH, {3: 0xFFFF}))
    refresher.start()
    wait_for(lambda: pair.report(0)["rx_prio3_pause"] >= 1)
    stopped = pair.report(0)["tx_data_packets"]
    wait_for(lambda: pair.report(0)["rx_prio3_pause_duration"] > 500_000)
    still = pair.report(0)["tx_data_packets"]
    hold.set()
    refresher.join()
    pair.wire.inject(0, pause_frame(SWITCH, {3: 0}))
    pair.finish()
    after = pair.report(0)
    assert still == stopped
    assert after["rx_prio3_pause_transition"] == 1
    assert (after["requesters"][0]["retransmitted_packets"], after["requesters"][0]["local_ack_timeout_err"]) == (0, 0)
    paused = after["rx_prio3_pause_duration"]
    assert pair.report(0)["rx_prio3_pause_duration"] == paused


def test_a_pause_ends_by_itself_after_its_quanta(pair):
    pair.wire.inject(0, pause_frame(SWITCH, {3: 5000}))
    wait_for(lambda: pair.report(0)["rx_prio3_pause"] == 1)
    pair.start({"size_bytes": 20_000})
    pair.finish()
    assert pair.report(0)["rx_prio3_pause_duration"] == 5000 * 512 * 10**6 // LINE_BPS


def test_a_pause_of_another_priority_changes_nothing(pair):
    pair.wire.inject(0, pause_frame(SWITCH, {2: 0xFFFF, 4: 0xFFFF}))
    wait_for(lambda: pair.report(0)["rx_prio4_pause"] == 1)
    pair.start({"size_bytes": 100_000})
    wait_for(lambda: pair.report(0)["requesters"][0]["completed_ns"])
    assert pair.report(0)["rx_prio3_pause"] == 0


def test_cnps_are_sent_while_acknowledgements_are_paused(pair):
    pair.wire.inject(1, pause_frame(SWITCH, {3: 0xFFFF}))
    wait_for(lambda: pair.report(1)["rx_prio3_pause"] == 1)
    pair.wire.rule = mark
    pair.start({"size_bytes": 300_000})
    wait_for(lambda: len(pair.wire.of(1, roce.CNP)) >= 3)
    held = len(pair.wire.of(1, roce.RC_ACKNOWLEDGE))
    pair.wire.inject(1, pause_frame(SWITCH, {3: 0}))
    pair.finish()
    assert held == 0
    assert len(pair.wire.of(1, roce.RC_ACKNOWLEDGE)) > 0
    assert pair.report(0)["requesters"][0]["retransmitted_packets"] == 0


def source_port(frame: bytes | bytearray) -> int:
    return int.from_bytes(frame[34:36], "big")


@pytest.mark.alone  # each move must be requested within 40 packets of the one before
def test_twenty_planned_moves_at_full_rate_lose_reorder_and_resend_nothing(pair):
    ports = [0xC000 + number for number in range(21)]
    pair.wire.delay_s = lambda frame: 0.02 if frame[42] in roce.DATA and source_port(frame) % 2 == 0 else 0.0
    pair.start({"size_bytes": 3_500_000})
    for number, port in enumerate(ports[1:], start=1):
        wait_for(partial(has_sent, pair, 40 * number))
        pair.call(0, op="modify", qpn=0x100, udp_source_port=port)
    pair.finish()
    frames = pair.wire.of(0, *DATA)
    report, receiver = pair.report(0), pair.report(1)["responders"][0]
    sender = report["requesters"][0]
    assert [port for port, _ in groupby(map(source_port, frames))] == ports
    assert psns(frames) == [0xFFFFFA + n & 0xFFFFFF for n in range(len(frames))]
    assert (sender["retransmitted_packets"], receiver["out_of_sequence"], receiver["duplicate_request"]) == (0, 0, 0)
    assert (receiver["delivered_bytes"], sender["udp_source_port"]) == (3_500_000, ports[-1])
    assert [(move["kind"], move["resent_packets"]) for move in report["moves"]["256"]] == [("planned", 0)] * 20


def window_is_full(pair, window) -> bool:
    """Return whether the first NIC has sent all that it may: so many packets after the last acknowledged one."""
    acknowledged = psns(pair.wire.of(1, roce.RC_ACKNOWLEDGE))[-1:]
    return bool(acknowledged) and psns(pair.wire.of(0, *DATA))[-1] == acknowledged[0] + window & 0xFFFFFF


def test_after_a_failure_a_queue_pair_resends_from_the_first_unacknowledged_packet_before_its_timeout(pair):
    pair.start({"size_bytes": 2_000_000, "timeout_ns": 60_000_000_000, "window": 64})
    wait_for(partial(has_sent, pair, 60))
    pair.wire.rule = lambda frame: source_port(frame) != 0xC000
    wait_for(partial(window_is_full, pair, 64))  # until then an ACK may come between the move and the first packet
    pair.call(0, op="modify", qpn=0x100, udp_source_port=0xC111, move="failure", reason="link a>b down")
    pair.finish()
    old, new = (psns([f for f in pair.wire.of(0, *DATA) if source_port(f) == port]) for port in (0xC000, 0xC111))
    report, receiver = pair.report(0), pair.report(1)["responders"][0]
    move = report["moves"]["256"][0]
    assert (move["kind"], move["reason"]) == ("failure", "link a>b down")
    assert len(old) - old.index(new[0]) == move["resent_packets"] == 64
    assert new == [new[0] + n & 0xFFFFFF for n in range(len(new))]
    assert report["requesters"][0]["local_ack_timeout_err"] == 0
    assert receiver["delivered_bytes"] == sum(pair.report(1)["goodput"]["512"]) == 2_000_000


def test_a_nic_lists_its_queue_pairs_with_port_peer_and_sent_bytes(pair):
    pair.start({"size_bytes": 400_000}, {"size_bytes": 40_000})
    pair.finish()
    pair.call(0, op="modify", qpn=0x101, udp_source_port=0xC999)
    before = time.time_ns()
    found = pair.call(0, op="queue_pairs")
    sent = [sum(map(len, (f for f in pair.wire.of(0, *DATA) if f[47:50] == bytes([0, 2, n])))) for n in range(2)]
    assert found["ip"] == "10.0.0.1"
    assert before <= found["timestamp_unix_ns"] <= time.time_ns()
    assert found["queue_pairs"] == [
        {"qpn": 0x100, "peer_qpn": 0x200, "peer_ip": "10.0.0.2", "udp_source_port": 0xC000, "sent_bytes": sent[0]},
        {"qpn": 0x101, "peer_qpn": 0x201, "peer_ip": "10.0.0.2", "udp_source_port": 0xC999, "sent_bytes": sent[1]},
    ]


def test_an_unknown_kind_of_move_is_refused(pair):
    pair.start({"size_bytes": 4_000})
    pair.children[0].send_request(op="modify", qpn=0x100, udp_source_port=0xC999, move="sideways")
    with pytest.raises(PrerequisiteError, match="unknown move 'sideways'"):
        pair.children[0].read_reply()


def test_a_responders_source_port_changes_for_its_next_acknowledgement(pair):
    pair.start({"size_bytes": 800_000})
    wait_for(lambda: len(pair.wire.of(1, roce.RC_ACKNOWLEDGE)) > 4)
    pair.call(1, op="modify", qpn=0x200, udp_source_port=0xE001)
    pair.finish()
    ports = [int.from_bytes(frame[34:36], "big") for frame in pair.wire.of(1, roce.RC_ACKNOWLEDGE)]
    assert list(dict.fromkeys(ports)) == [0xD000, 0xE001]


def test_queue_pairs_that_want_the_whole_line_get_equal_shares(pair):
    pair.start(*({"size_bytes": 10_000_000} for _ in range(4)), {"size_bytes": 10_000_000, "rate_bps": 1_000_000})
    wait_for(lambda: len(pair.wire.of(0, *DATA)) > 800)
    sent = [queue["tx_packets"] for queue in pair.report(0)["requesters"]]
    assert max(sent[:4]) - min(sent[:4]) <= 2
    assert 0 < sent[4] < min(sent[:4]) / 2


def test_a_lost_packet_is_sent_again_from_there(pair):
    lost = []

    def lose(frame: bytearray) -> bool:
        if frame[42] in roce.DATA and not lost and len(pair.wire.frames) > 30:
            lost.append(psns([bytes(frame)])[0])
            return False
        return True

    pair.wire.rule = lose
    pair.start({"size_bytes": 500_000, "operation": "send"})
    pair.finish()
    sender, receiver = pair.report(0), pair.report(1)
    assert psns(pair.wire.of(0, *DATA)).count(lost[0]) == 2
    assert sender["packet_seq_err"] == 1
    assert receiver["out_of_sequence"] > 0
    assert receiver["responders"][0]["delivered_bytes"] == 500_000


def test_the_icrc_of_every_kind_of_packet_equals_scapys(pair):
    lost = []

    def mark_and_lose_one(frame: bytearray) -> bool:
        mark(frame)
        if frame[42] in roce.DATA and not lost and len(pair.wire.frames) > 30:
            lost.append(frame)
            return False
        return True

    pair.wire.rule = mark_and_lose_one
    pair.start({"size_bytes": 270_001}, {"size_bytes": 270_001, "operation": "send"}, {"size_bytes": 100},
               {"size_bytes": 100, "operation": "send"})  # fmt: skip
    pair.finish()
    frames = [frame for _, _, frame in pair.wire.frames]
    assert {frame[42] for frame in frames} == {*roce.DATA, roce.RC_ACKNOWLEDGE, roce.CNP}
    assert any(frame[42] == roce.RC_ACKNOWLEDGE and frame[54] == roce.NAK_SEQUENCE_ERROR for frame in frames)
    for frame in frames:
        packet = Ether(frame)
        packet[BTH].icrc = None
        assert bytes(packet) == frame


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_notifications_and_pauses_without_complaint(pair, tmp_path):
    pair.wire.rule = mark
    pair.start({"size_bytes": 100_000})
    pair.finish()
    file = tmp_path / "frames.pcap"
    file.write_bytes(pcap([*pair.wire.of(1, roce.CNP), pause_frame(SWITCH, {3: 0xFFFF})]))
    columns = ["-e", "infiniband.bth.opcode", "-e", "macc.opcode", "-e", "_ws.malformed"]
    command = ["tshark", "-r", str(file), "-T", "fields", *columns]
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    *notifications, pause = [line.split("\t") for line in done.stdout.splitlines()]
    assert {fields[0] for fields in notifications} == {"129"}
    assert int(pause[1], 0) == 0x0101
    assert "".join(fields[2] for fields in [*notifications, pause]) == ""


def test_the_counters_in_the_file_only_grow_while_those_of_a_run_are_reset(pair):
    pair.start({"size_bytes": 100_000})
    pair.finish()
    wait_for(lambda: pair.snapshot(0)["counters"]["tx_data_packets"] == 25)
    first = pair.snapshot(0)
    pair.call(0, op="reset")
    pair.call(1, op="reset")
    pair.start({"size_bytes": 100_000})
    pair.finish()
    wait_for(lambda: pair.snapshot(0)["counters"]["tx_data_packets"] == 50)
    second = pair.snapshot(0)
    assert pair.report(0)["tx_data_packets"] == 25
    assert (first["nic"], first["boot_id"]) == ("n0", second["boot_id"])
    assert second["sequence"] > first["sequence"]
    assert second["timestamp_unix_ns"] > first["timestamp_unix_ns"]
    assert all(second["counters"][name] >= value for name, value in first["counters"].items())
    assert second["counters"]["tx_prio3_packets"] == 50
    assert json.dumps(second["requesters"])


def test_a_pause_can_be_sent_by_the_nic_itself(pair):
    pair.call(0, op="pause", priority=3, quanta=7)
    wait_for(lambda: pair.report(1)["rx_prio3_pause"] == 1)
    assert pair.report(0)["tx_prio3_pause"] == 1
    assert pair.report(1)["rx_prio3_pause_duration"] <= 7 * 512 * 10**6 // LINE_BPS


def test_a_nic_in_storm_pauses_its_peer_until_it_is_stopped(pair):
    pair.call(0, op="storm", priority=3, running=True)
    wait_for(lambda: pair.report(1)["rx_prio3_pause"] >= 5)
    assert pair.report(1)["rx_prio3_pause_transition"] == 1
    pair.call(0, op="storm", priority=3, running=False)
    wait_for(lambda: pair.report(0)["tx_prio3_pause"] == pair.report(1)["rx_prio3_pause"])
    pair.start({"size_bytes": 10_000})
    pair.finish()
    assert pair.report(0)["tx_prio3_pause"] == pair.report(1)["rx_prio3_pause"]


def test_an_unknown_queue_pair_cannot_be_changed(pair):
    pair.children[0].send_request(op="modify", qpn=5, rate_bps=1)
    with pytest.raises(Exception, match="no queue pair 5 is open"):
        pair.children[0].read_reply()


def test_under_all_disturbances_together_all_data_arrives_in_order_exactly_once(pair):
    """Losses, repetitions, marks, pauses, path changes and new rates together, on queue pairs of both kinds."""
    chance = random.Random(7)

    def mistreat(frame: bytearray) -> bool:
        if chance.random() < 0.2:
            mark(frame)
        if chance.random() < 0.02:
            pair.wire.inject(0 if frame[5] == 1 else 1, bytes(frame))  # once more
        return chance.random() > 0.02

    pair.wire.rule = mistreat
    flow = {"size_bytes": 700_000, "timeout_ns": 100_000_000, "window": 32, "message_bytes": 40_000}
    pair.start(flow, {**flow, "operation": "send"}, {**flow, "rate_bps": 3_000_000})
    for step in range(12):
        wait_for(partial(has_sent, pair, 40 * step))
        pair.wire.inject(step % 2, pause_frame(SWITCH, {3: chance.choice((0, 300, 2000))}))
        pair.call(0, op="modify", qpn=0x100 + step % 3, udp_source_port=0xC800 + step, rate_bps=2_000_000 * (1 + step))
    pair.finish()
    sender, receiver = pair.report(0), pair.report(1)
    assert [queue["delivered_bytes"] for queue in receiver["responders"]] == [700_000] * 3
    assert [queue["acked_bytes"] for queue in sender["requesters"]] == [700_000] * 3
    assert sum(queue["retransmitted_packets"] for queue in sender["requesters"]) > 0
    assert sender["rp_cnp_handled"] > 0
    assert sender["rx_prio3_pause"] + receiver["rx_prio3_pause"] == 12
