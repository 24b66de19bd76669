"""The queue model under real load: marks, pauses and drops, each counted at both ends of the link."""

import json
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.telemetry.counter_page import CounterPageReader
from tests.support.fabrics.small_fabrics import spine_leaf
from tests.support.packets.paced_load import run_load
from tests.support.packets.paced_traffic import PAYLOAD_BYTES

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.alone,
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
]

LINE_BPS = 20_000_000
FRAME_BITS = 8 * (14 + 20 + 8 + 12 + PAYLOAD_BYTES + 4)
UNDISTURBED_TRIES = 4
ALL_SENT = 0.995
"""A sender that sent less than this part of what it should was stopped for 15 ms of 3 s."""
LOSSLESS, BEST_EFFORT, CNP = 3, 0, 6
CNP_TRAFFIC_CLASS, NOT_ECT = 48 << 2, 26 << 2


@contextmanager
def lab_of(fabric: Fabric, settings: QueueSettings) -> Iterator[Lab]:
    with Lab(fabric, queues=settings) as lab:
        lab.ecmp.load()
        yield lab


@pytest.fixture(scope="module")
def marking() -> Iterator[Lab]:
    """One leaf: h1 and h2 send to h3, whose port is leaf1:4."""
    with lab_of(spine_leaf(1, 1, 3), QueueSettings(pfc=False)) as lab:
        yield lab


def load(
    lab: Lab, share: float, traffic_class: int = 26 << 2 | 2, seconds: float = 1.5
) -> tuple[dict[str, int], dict[str, int]]:
    """Load h3's port with a fraction of its rate; return the counters of its queue and of h3."""
    before = lab.queues.counters()
    rates = dict.fromkeys(("h1-n0", "h2-n0"), LINE_BPS * share / 2)
    seen = run_load(lab, rates, "h3-n0", seconds=seconds, traffic_class=traffic_class)
    return lab.queues.counters().since(before).queue("leaf1:4", LOSSLESS), seen["h3-n0"]


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_nothing_is_marked_below_the_line_rate(marking, share):
    tries = []
    for _ in range(UNDISTURBED_TRIES):  # a machine that stalls sends too little, or a burst, which is rightly marked
        queue, receiver = load(marking, share)
        assert queue["packets"] == receiver["rx"]
        assert queue["ecn_marked_packets"] == receiver["ce"]
        assert queue["dropped_packets"] == 0
        tries.append((receiver["ce"], receiver["rx"] > 300))
        if tries[-1] == (0, True):
            break
    assert tries[-1] == (0, True), tries


@pytest.mark.parametrize(("share", "seconds", "least_part"), [(1.02, 3.0, 0.2), (1.2, 1.5, 0.4)])
def test_much_is_marked_above_the_line_rate_and_the_receiver_counts_the_same(marking, share, seconds, least_part):
    for _ in range(UNDISTURBED_TRIES):  # a queue that empties while the machine stalls needs seconds to fill again
        queue, receiver = load(marking, share, seconds=seconds)
        assert queue["ecn_marked_packets"] == receiver["ce"]
        assert queue["depth_bytes"] == 0
        sent = queue["packets"] + queue["dropped_packets"]
        if sent >= ALL_SENT * seconds * share * LINE_BPS / FRAME_BITS:
            break
    assert receiver["ce"] > least_part * receiver["rx"]


def test_what_is_not_ecn_capable_is_never_marked(marking):
    queue, receiver = load(marking, 1.2, NOT_ECT)
    assert (queue["ecn_marked_packets"], receiver["ce"]) == (0, 0)
    assert queue["packets"] == receiver["rx"]


def test_cnps_have_a_priority_of_their_own(marking):
    before = marking.queues.counters()
    run_load(marking, {"h1-n0": 2_000_000.0}, "h3-n0", seconds=0.5, traffic_class=CNP_TRAFFIC_CLASS)
    run_load(marking, {"h1-n0": 2_000_000.0}, "h3-n0", seconds=0.5, traffic_class=10 << 2)
    grown = marking.queues.counters().since(before)
    packets = {priority: grown.queue("leaf1:4", priority)["packets"] for priority in range(8)}
    assert packets[CNP] > 10 < packets[BEST_EFFORT]
    assert packets[LOSSLESS] == 0


INCAST = {f"h{n}-n0": float(LINE_BPS) for n in range(2, 9)}


def lossless_totals(lab: Lab) -> dict[str, int]:
    snapshot = lab.queues.counters()
    found = [snapshot.queue(name, LOSSLESS) for name in snapshot.names]
    return {field: sum(queue[field] for queue in found) for field in found[0]}


def test_seven_to_one_loses_thousands_of_frames_without_pauses():
    with lab_of(spine_leaf(2, 4, 8), QueueSettings(pfc=False)) as lab:
        seen = run_load(lab, INCAST, "h1-n0", seconds=2.0, drain_s=1.5)
        totals = lossless_totals(lab)
    assert totals["dropped_packets"] > 2000
    assert sum(host["tx"] for host in seen.values()) == seen["h1-n0"]["rx"] + totals["dropped_packets"]
    assert (totals["depth_bytes"], totals["pfc_tx_frames"]) == (0, 0)


def test_seven_to_one_loses_nothing_with_pauses_and_every_frame_of_them_is_sound(tmp_path):
    with lab_of(spine_leaf(2, 4, 8), QueueSettings()) as lab, captured_pauses(lab) as frames:
        seen = run_load(lab, INCAST, "h1-n0", seconds=2.0, drain_s=1.5)
        totals, report = lossless_totals(lab), lab.queues.report()
        page = CounterPageReader(lab.queues.page_path)
        assert page.read().names == lab.queues.counters().names
    sent = sum(host["tx"] for host in seen.values())
    assert (totals["dropped_packets"], totals["depth_bytes"], report["ingress_bytes"]) == (0, 0, 0)
    assert seen["h1-n0"]["rx"] == sent > 0.8 * 2.0 * LINE_BPS / (8 * 4154)
    assert totals["paused_ns"] > 10**9
    assert report["pause_errors"] == 0
    at_hosts = sum(host["pauses"] + host["resumes"] for host in seen.values())
    assert totals["pfc_tx_frames"] == totals["pfc_rx_frames"] + at_hosts
    assert len(frames) == totals["pfc_rx_frames"]
    check_with_scapy(frames)
    check_with_tshark(frames, tmp_path / "pauses.pcap")


@contextmanager
def captured_pauses(lab: Lab) -> Iterator[list[bytes]]:
    """Collect the pause frames that arrive at the lab's switch ports."""
    frames: list[bytes] = []
    ours, done = set(lab.net.interface_of.values()), threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x8808)) as sock:

        def collect() -> None:
            while select.select([sock], [], [], 0.2)[0] or not done.is_set():
                if select.select([sock], [], [], 0)[0]:
                    frame, address = sock.recvfrom(256)
                    if address[0] in ours:
                        frames.append(frame)

        thread = threading.Thread(target=collect)
        thread.start()
        try:
            yield frames
        finally:
            done.set()
            thread.join()


def check_with_scapy(frames: list[bytes]) -> None:
    for frame in frames:
        pause = Ether(frame)[MACControlClassBasedFlowControl]
        assert (pause.c3_enabled, sum(pause.getfieldval(f"c{n}_enabled") for n in range(8))) == (1, 1)
        assert pause.c3_pause_time in (0, 0xFFFF)


def check_with_tshark(frames: list[bytes], path: Path) -> None:
    if shutil.which("tshark") is None:
        return  # scapy has checked them
    wrpcap(str(path), [Ether(frame) for frame in frames])
    command = ["tshark", "-r", str(path), "-T", "json", "-Y", "macc"]
    packets = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert len(packets) == len(frames)
    assert all("_ws.malformed" not in packet["_source"]["layers"] for packet in packets)


SLOW_RECEIVER = """
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0); s.bind(("eth0", 0))
def pause(quanta):
    head = bytes.fromhex("0180c2000001" "020000000003" "8808" "0101" "0008")
    s.send(head + bytes(6) + quanta.to_bytes(2, "big") + bytes(34))
time.sleep(0.6); pause(0xffff); time.sleep(0.3); pause(0xffff); time.sleep(0.3); pause(0)
time.sleep(0.3); pause(7812)
"""
"""Pauses for 0.6 s, refreshed once and ended by XON; then for 7,812 quanta, 200 ms at 20 Mbit/s, which expire."""


def test_a_nic_that_pauses_its_port_is_obeyed_to_the_end_and_the_pause_spreads_without_loss():
    with lab_of(spine_leaf(1, 2, 4), QueueSettings(watchdog=False)) as lab:
        receiver = lab.net.host("h3").popen([sys.executable, "-S", "-c", SLOW_RECEIVER])
        seen = run_load(lab, {"h1-n0": 0.6 * LINE_BPS}, "h3-n0", seconds=2.0, drain_s=1.0)
        receiver.communicate(timeout=10)
        snapshot, totals = lab.queues.counters(), lossless_totals(lab)
    port = snapshot.queue("leaf2:2", LOSSLESS)
    assert port["pfc_rx_frames"] == 4
    assert 0.7e9 < port["paused_ns"] < 1.1e9
    assert snapshot.queue("leaf1:1", LOSSLESS)["paused_ns"] > 0
    assert seen["h1-n0"]["pauses"] > 0
    assert (totals["dropped_packets"], totals["depth_bytes"]) == (0, 0)
    assert seen["h3-n0"]["rx"] == seen["h1-n0"]["tx"]


def test_a_pulled_cable_leaves_no_bytes_behind_in_the_counters():
    with lab_of(spine_leaf(1, 2, 4), QueueSettings()) as lab:
        pull = threading.Timer(1.6, lambda: lab.net.set_cable("leaf1:1>spine1:1", up=False))
        pull.start()
        run_load(lab, {"h1-n0": LINE_BPS, "h2-n0": LINE_BPS}, "h3-n0", seconds=1.5, drain_s=2.5)
        pull.join()
        report = lab.queues.report()
    assert report["written_off_bytes"] > 0
    assert (report["depth_bytes"], report["ingress_bytes"]) == (0, 0)
