"""Real ports on veth pairs: what arrives leaves as it came, and what does not is counted, frame by frame."""

import os
import socket
import struct
import time
from contextlib import contextmanager

import numpy as np
import pytest

from heddle.dataplane.engine.burst import DROPPED, PUNTED
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.io.af_xdp import bpf
from heddle.dataplane.io.interface import SENDING, read_interface, switch_off_offloads
from heddle.dataplane.io.opening import Backend
from heddle.dataplane.io.polling import wait
from heddle.dataplane.io.ports import copy_in, inject
from heddle.dataplane.io.settings import PortSettings, RingSizes
from heddle.mininet_topos.host.namespace import network_namespace
from tests.support.packets.nic_pair import wait_for
from tests.support.packets.veth_ports import Gateway, Wires, frame_of, gateway_on

pytestmark = pytest.mark.e2e

BACKENDS = pytest.mark.parametrize("backend", [Backend.AF_XDP, Backend.AF_PACKET])
BPF_TCX_EGRESS = 47
TAGGED = frame_of(80)[:12] + b"\x81\x00\x60\x07" + frame_of(80)[12:]


@pytest.fixture
def wires():
    wires = Wires()
    yield wires
    wires.close()


@pytest.fixture
def jumbo_wires():
    wires = Wires(mtu=9000)
    yield wires
    wires.close()


def collect(gateway, wires, count, *to) -> list[list[bytes]]:
    """Forward until so many frames have arrived behind the gateway; return them by wire."""
    found: list[list[bytes]] = [[] for _ in wires.names]

    def all_there() -> bool:
        gateway.forward(*to)
        for port in range(len(wires.names)):
            found[port] += wires.arrived(port)
        return sum(map(len, found)) >= count

    wait_for(all_there)
    return found


@BACKENDS
def test_frames_of_every_size_cross_in_both_directions_byte_for_byte(jumbo_wires, backend):
    frames = [frame_of(length, mark) for mark, length in enumerate((14, 64, 1500, 3840, 3841, 4250, 7681, 9000, 9014))]
    with gateway_on(jumbo_wires, backend) as gateway:
        for frame in frames:
            jumbo_wires.send(0, frame)
            jumbo_wires.send(1, frame)
        found = collect(gateway, jumbo_wires, 2 * len(frames), 1, 0)
        assert found == [frames, frames]
        assert gateway.counters_balance()
        assert gateway.lost_buffers() == 0


@BACKENDS
@pytest.mark.parametrize("length", [64, 1400, 4250, 8900])
def test_an_outer_header_is_put_in_front_of_a_frame_of_any_size(jumbo_wires, backend, length):
    frame, outer = frame_of(length), frame_of(64)[:50]
    with gateway_on(jumbo_wires, backend) as gateway:
        jumbo_wires.send(0, frame)
        gateway.receive_all(0, 1)
        packet = gateway.packets[0]
        assert packet["at"] - packet["floor"] >= 128
        for name, change in (("at", -50), ("length", 50), ("first_length", 50)):
            packet[name] += change
        at = packet["at"]
        gateway.ports.memory[at : at + 50] = np.frombuffer(outer, np.uint8)
        packet["node"], packet["out_port"] = -2, 1
        gateway.settle(1)
        found = collect(gateway, jumbo_wires, 1, -1, -1)
        assert found == [[], [outer + frame]]


@pytest.mark.alone  # it overloads a receive queue, and counts what the kernel does then
@BACKENDS
@pytest.mark.parametrize("length", [64, 4250])
def test_what_comes_too_fast_is_missed_and_counted_to_the_last_frame(jumbo_wires, backend, length):
    sent, sizes = 3000, RingSizes(receive=256, transmit=256)
    with gateway_on(jumbo_wires, backend, sizes) as gateway:
        for mark in range(sent):
            jumbo_wires.send(0, frame_of(length, mark))
        counted, arrived = gateway.counters.ports, []

        def all_came() -> bool:
            gateway.forward(1, -1)
            gateway.open.sample(gateway.counters)
            arrived.extend(int.from_bytes(frame[14:18], "big") for frame in jumbo_wires.arrived(1))
            return (
                counted["rx_packets"][0] + counted["rx_missed"][0] >= sent and len(arrived) >= counted["tx_packets"][1]
            )

        wait_for(all_came)
        assert counted["rx_packets"][0] + counted["rx_missed"][0] == sent
        assert counted["rx_missed"][0] > 0
        assert counted["tx_packets"][1] == counted["rx_packets"][0] == len(arrived)
        assert arrived == sorted(set(arrived))
        assert gateway.lost_buffers() == 0


@BACKENDS
def test_dropped_and_punted_frames_are_counted_and_their_buffers_come_back(wires, backend):
    sizes = RingSizes(receive=64, transmit=64)
    with gateway_on(wires, backend, sizes) as gateway:
        for turn in range(40):
            for mark in range(10):
                wires.send(0, frame_of(100, mark))
            gateway.receive_all(0, 10)
            gateway.packets["node"][:10] = DROPPED if turn % 2 else PUNTED
            gateway.packets["reason"][:10] = Drop.NO_ROUTE if turn % 2 else Punt.ARP
            gateway.settle(10)
        assert (gateway.counters.drops[Drop.NO_ROUTE], gateway.counters.punts[Punt.ARP]) == (200, 200)
        assert gateway.counters_balance()
        assert gateway.lost_buffers() == 0


@BACKENDS
@pytest.mark.parametrize("length", [60, 4250])
def test_the_slow_path_sends_a_frame_or_lets_it_enter_a_burst(jumbo_wires, backend, length):
    frame = np.frombuffer(bytearray(frame_of(length)), np.uint8)
    with gateway_on(jumbo_wires, backend) as gateway:
        for _ in range(100):
            assert inject(gateway.ports, 1, frame, 0, length, gateway.counters)
            assert copy_in(gateway.ports, 0, frame, 0, length, gateway.packets, 0, gateway.counters)
            gateway.packets["node"][0], gateway.packets["out_port"][0] = -2, 1
            gateway.settle(1)
        found = collect(gateway, jumbo_wires, 200, -1, -1)
        assert found == [[], [frame_of(length)] * 200]
        assert gateway.counters_balance()
        assert gateway.lost_buffers() == 0


@BACKENDS
def test_a_far_end_that_is_down_costs_frames_that_are_counted_and_no_buffer(wires, backend):
    with gateway_on(wires, backend, RingSizes(receive=256, transmit=64)) as gateway:
        wires.far.run("ip", "link", "set", "f1", "down")
        for mark in range(200):
            wires.send(0, frame_of(64, mark))
        gateway.forward_first(200, 1, -1)
        assert gateway.counters.drops[Drop.TRANSMIT_FAILED] == gateway.counters.ports["tx_failed"][1] == 200
        assert gateway.counters.ports["tx_packets"][1] == 0
        assert gateway.counters_balance()
        assert gateway.lost_buffers() == 0
        wires.far.run("ip", "link", "set", "f1", "up")
        wires.wait_until_up()
        wires.send(0, frame_of(64, 7))
        assert collect(gateway, wires, 1, 1, -1) == [[], [frame_of(64, 7)]]


@BACKENDS
def test_an_interface_that_is_down_fills_up_and_no_buffer_is_lost(wires, backend):
    with gateway_on(wires, backend, RingSizes(receive=256, transmit=64)) as gateway:
        wires.near.run("ip", "link", "set", "g1", "down")
        for mark in range(200):
            wires.send(0, frame_of(64, mark))
        gateway.forward_first(200, 1, -1)
        waiting = int(gateway.ports.queues["sent"].sum())
        refused = gateway.counters.drops[Drop.TRANSMIT_FULL] + gateway.counters.drops[Drop.TRANSMIT_FAILED]
        assert refused == 200 - waiting
        assert gateway.counters_balance()
        assert gateway.lost_buffers() == 0
        wires.near.run("ip", "link", "set", "g1", "up")
        wires.wait_until_up()
        assert collect(gateway, wires, waiting, 1, 0) == [[], [frame_of(64, mark) for mark in range(waiting)]]
        wires.send(0, frame_of(64, 999))
        assert collect(gateway, wires, 1, 1, 0) == [[], [frame_of(64, 999)]]
        assert gateway.lost_buffers() == 0


@BACKENDS
def test_what_still_waits_when_ports_are_closed_is_counted_as_lost(wires, backend):
    with gateway_on(wires, backend) as gateway:
        wires.near.run("ip", "link", "set", "g1", "down")
        for mark in range(20):
            wires.send(0, frame_of(64, mark))
        gateway.forward_first(20, 1, -1)
        gateway.open.drain(gateway.counters)
        assert gateway.counters.drops[Drop.TRANSMIT_FAILED] == 20
        assert gateway.counters_balance()


def test_vlan_tags_are_in_the_frame_by_whatever_way_they_came(wires):
    with gateway_on(wires, Backend.AF_PACKET) as gateway:
        wires.send(0, TAGGED)
        with aside_in_a_tag(wires, 0x6007):
            wires.send(0, frame_of(80))
        gateway.receive_all(0, 2)
        assert [gateway.content(0), gateway.content(1)] == [TAGGED, TAGGED]
        gateway.packets["node"][:2], gateway.packets["out_port"][:2] = -2, 1
        gateway.settle(2)
        assert gateway.counters.ports["tx_bytes"][1] == 2 * len(TAGGED)


def test_af_xdp_sees_tags_once_the_sender_leaves_them_in_the_frame(wires):
    with network_namespace(wires.far.pid):
        switch_off_offloads("f0", SENDING)
    with gateway_on(wires, Backend.AF_XDP) as gateway:
        wires.send(0, TAGGED)
        with aside_in_a_tag(wires, 0x6007):
            wires.send(0, frame_of(80))
        gateway.receive_all(0, 2)
        assert [gateway.content(0), gateway.content(1)] == [TAGGED, TAGGED]
        gateway.packets["node"][:2] = DROPPED
        gateway.settle(2)


@contextmanager
def aside_in_a_tag(wires, tag: int):
    """Have the sender's kernel keep a VLAN tag beside every frame that f0 sends (bpf_skb_vlan_push at its egress)."""
    one = bpf._instruction
    code = one(0xB7, 2, 0, 0, 0x0081) + one(0xB7, 3, 0, 0, tag) + one(0x85, immediate=18) + one(0xB7) + one(0x95)
    with network_namespace(wires.far.pid):
        program = bpf.load_program("push", code, kind=bpf.BPF_PROG_TYPE_SCHED_CLS, attach_type=BPF_TCX_EGRESS)
        link = bpf.attach(program, socket.if_nametoindex("f0"), BPF_TCX_EGRESS)
    try:
        yield
    finally:
        os.close(link)
        os.close(program)


@pytest.mark.parametrize("family", [4, 6])
def test_a_checksum_that_was_left_to_the_card_is_filled_in(wires, family):
    inside = "10.9.0.2" if family == 4 else "fd00::2"
    wires.far.run("sysctl", "-q", "-w", "net.ipv6.conf.f0.disable_ipv6=0")
    wires.far.run("ip", "addr", "add", "10.9.0.1/24" if family == 4 else "fd00::1/64", "dev", "f0", "nodad")
    wires.far.run("ip", "neigh", "add", inside, "lladdr", "02:00:00:00:00:09", "dev", "f0")
    with gateway_on(wires, Backend.AF_PACKET) as gateway, network_namespace(wires.far.pid):
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        with socket.socket(kind, socket.SOCK_DGRAM) as sender:
            for length in (0, 1, 5, 100, 1301):
                sender.sendto(b"\xa7" * length, (inside, 5000))
        frames: list[bytes] = []

        def all_came() -> bool:
            frames.extend(udp_frames(gateway))
            return len(frames) >= 5

        wait_for(all_came)
    assert len(frames) == 5
    for frame in frames:
        assert transport_sum(frame, family) == 0xFFFF


def udp_frames(gateway) -> list[bytes]:
    count = gateway.receive(0)
    frames = [gateway.content(row) for row in range(count)]
    gateway.packets["node"][:count] = DROPPED
    gateway.settle(count)
    return [f for f in frames if (f[12:14] == b"\x08\x00" and f[23] == 17) or (f[12:14] == b"\x86\xdd" and f[20] == 17)]


def transport_sum(frame: bytes, family: int) -> int:
    """Sum the pseudo header and the datagram as RFC 768 says; all ones if the checksum is right."""
    addresses, datagram = (frame[26:34], frame[34:]) if family == 4 else (frame[22:54], frame[54:])
    length = int.from_bytes(datagram[4:6], "big")
    whole = addresses + struct.pack("!HH", 17, length) + datagram[:length] + bytes(length % 2)
    total = sum(struct.unpack(f"!{len(whole) // 2}H", whole))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_a_frame_that_the_kernel_cannot_hand_over_whole_is_truncated_and_counted(wires):
    wires.far.run("ip", "link", "set", "f0", "mtu", "9000")
    with gateway_on(wires, Backend.AF_PACKET) as gateway:
        wires.near.run("ip", "link", "set", "g0", "mtu", "9000")
        for length in (60, 9000, 61):
            wires.send(0, frame_of(length))
        found = collect(gateway, wires, 2, 1, -1)
        assert found[1] == [frame_of(60), frame_of(61)]
        assert gateway.counters.drops[Drop.TRUNCATED] == 1
        assert gateway.counters_balance()


def test_linux_does_not_answer_what_arrives_at_an_af_packet_port(wires):
    wires.near.run("ip", "addr", "add", "10.8.0.2/24", "dev", "g0")
    wires.far.run("ip", "addr", "add", "10.8.0.1/24", "dev", "f0")
    wires.wait_until_up()
    assert pinged(wires, wait_s=10) == "yes\n"
    with gateway_on(wires, Backend.AF_PACKET) as gateway:
        assert pinged(wires, wait_s=1) == "no\n"
        assert gateway.receive(0) > 0


def pinged(wires, wait_s: int) -> str:
    return wires.far.run("sh", "-c", f"ping -c 1 -W {wait_s} 10.8.0.2 >/dev/null && echo yes || echo no")


@BACKENDS
def test_a_wait_ends_with_a_frame_or_with_its_time(wires, backend):
    with gateway_on(wires, backend) as gateway:
        before = time.monotonic()
        assert not wait(gateway.ports, 30)
        assert time.monotonic() - before > 0.02
        wires.send(1, frame_of(64))
        assert wait(gateway.ports, 10_000)
        assert collect(gateway, wires, 1, -1, 0) == [[frame_of(64)], []]


@BACKENDS
def test_a_port_that_only_sends_leaves_what_arrives_to_linux(wires, backend):
    wires.near.run("ip", "addr", "add", "10.8.0.2/24", "dev", "g1")
    wires.far.run("ip", "addr", "add", "10.8.0.1/24", "dev", "f1")
    settings = [PortSettings(interface="g0"), PortSettings(interface="g1", receives=False)]
    gateway = Gateway(wires, backend, settings=settings)
    try:
        wires.send(0, frame_of(64))
        assert collect(gateway, wires, 1, 1, -1) == [[], [frame_of(64)]]
        assert wires.far.run("ping", "-c", "1", "-W", "5", "10.8.0.2")
    finally:
        gateway.close()


def test_all_queues_of_an_interface_are_received_from():
    wires = Wires(queues=2)
    try:
        with network_namespace(wires.near.pid):
            assert read_interface("g0").queues == 2
        with gateway_on(wires, Backend.AF_XDP) as gateway:
            frames = [udp_flow(port) for port in range(64)]
            for frame in frames:
                wires.send(0, frame)
            found = collect(gateway, wires, len(frames), 1, -1)
            assert sorted(found[1]) == sorted(frames)
            assert gateway.ports.ports["queues"].tolist() == [2, 2]
    finally:
        wires.close()


def test_processes_of_a_fanout_group_share_what_arrives_by_flow(wires):
    settings = [PortSettings(interface="g0", fanout=7), PortSettings(interface="g1", fanout=8)]
    gateways = [Gateway(wires, Backend.AF_PACKET, settings=settings) for _ in range(2)]
    try:
        frames = [udp_flow(port) for port in range(64)]
        for frame in frames * 2:
            wires.send(0, frame)
        taken, arrived = [0, 0], []

        def all_crossed() -> bool:
            for number, gateway in enumerate(gateways):
                taken[number] += gateway.forward(1, -1)
            arrived.extend(wires.arrived(1))
            return len(arrived) >= 128

        wait_for(all_crossed)
        assert sum(taken) == 128
        assert all(count and count % 2 == 0 for count in taken)
        assert sorted(arrived) == sorted(frames * 2)
    finally:
        for gateway in gateways:
            gateway.close()


def udp_flow(port: int) -> bytes:
    head = frame_of(12)[:12] + b"\x08\x00"
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 46, 0, 0, 64, 17, 0, 0x0A000001, 0x0A000002)
    return head + ip + struct.pack("!HHHH", 1000 + port, 4791, 26, 0) + bytes(18)
