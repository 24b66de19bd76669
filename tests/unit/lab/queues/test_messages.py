"""The queue model's netlink messages and pause frames, byte by byte, against scapy and the kernel's structures."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Ether

from heddle.foundation.traffic_class import CLASSES, DATA
from heddle.mininet_topos.queues.description import LabPorts, NicEnd, SwitchPort, from_wire, to_wire
from heddle.mininet_topos.queues.netlink import (
    EGRESS,
    INGRESS,
    bucket_change,
    bucket_removal,
    clsact_request,
    program_request,
)
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.wire.pause_frame import pause_frame, quanta_ns, read_pause_frame

MAC = bytes.fromhex("02aabbccdd01")
QUANTA = st.dictionaries(st.integers(0, 7), st.integers(0, 0xFFFF))


def attributes(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at < len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        found[kind] = data[at + 4 : at + length]
        at += length + -length % 4
    return found


@given(QUANTA)
def test_a_pause_frame_equals_scapy_s(quanta):
    fields = {f"c{priority}_enabled": 1 for priority in quanta}
    fields |= {f"c{priority}_pause_time": time for priority, time in quanta.items()}
    theirs = bytes(Ether(src="02:aa:bb:cc:dd:01", dst="01:80:c2:00:00:01") / MACControlClassBasedFlowControl(**fields))
    ours = pause_frame(MAC, quanta)
    assert len(ours) == 60
    assert ours == theirs.ljust(60, b"\0")


@given(QUANTA)
def test_a_pause_frame_is_read_as_it_was_written(quanta):
    assert read_pause_frame(pause_frame(MAC, quanta)) == quanta


@given(st.binary(max_size=80))
def test_any_bytes_are_a_pause_frame_or_none(data):
    read_pause_frame(data)
    head = bytes.fromhex("0180c2000001") + MAC + bytes.fromhex("8808")
    assert read_pause_frame(head + b"\x00\x01" + data) is None  # the older pause of a whole link: another opcode


def test_a_quantum_is_512_bit_times():
    assert quanta_ns(0xFFFF, 20_000_000) == 1_677_696_000
    assert quanta_ns(1, 100_000_000_000) == 5


def test_a_program_is_attached_by_descriptor_with_its_attachment_as_class():
    message = program_request(7, EGRESS, 33, "heddle_egress", 12)
    length, kind, flags, _, _ = struct.unpack_from("=IHHII", message)
    family, index, handle, parent, info = struct.unpack_from("=BxxxiIII", message, 16)
    assert (length, kind, flags) == (len(message), 44, 0x1 | 0x4 | 0x200 | 0x400)
    assert (family, index, handle, parent, info) == (0, 7, 0, 0xFFFFFFF3, 1 << 16 | 0x0300)
    outer = attributes(message[36:])
    assert outer[1] == b"bpf\0"
    assert attributes(outer[2]) == {
        3: struct.pack("=I", 12), 6: struct.pack("=I", 33), 7: b"heddle_egress\0", 8: struct.pack("=I", 1),
    }  # fmt: skip


def test_the_clsact_request_equals_that_of_tc():
    message = clsact_request(7)
    assert struct.unpack_from("=BxxxiIII", message, 16) == (0, 7, 0xFFFF0000, 0xFFFFFFF1, 0)
    assert attributes(message[36:]) == {1: b"clsact\0"}
    assert INGRESS == 0xFFFFFFF2


@pytest.mark.parametrize("rate", [1, 1_250_000_000, 10_000_000_000])
def test_a_bucket_is_changed_and_never_created(rate):
    message = bucket_change(7, 0x10013, 0x230000, rate_bytes_per_s=rate, burst_bytes=4300, limit_bytes=400_000)
    _, kind, flags, _, _ = struct.unpack_from("=IHHII", message)
    assert (kind, flags) == (36, 1)
    outer = attributes(message[36:])
    options = attributes(outer[2])
    assert outer[1] == b"tbf\0"
    spec = struct.unpack_from("=BBHhHI", options[1])
    assert (spec[1], spec[5]) == (1, min(rate, 0xFFFFFFFF))
    assert len(options[1]) == 36  # struct tc_tbf_qopt
    assert struct.unpack_from("=I", options[1], 24)[0] == 400_000
    assert options.get(4) == (struct.pack("=Q", rate) if rate > 0xFFFFFFFF else None)
    assert options[6] == struct.pack("=I", 4300)


def test_a_bucket_is_removed_and_created_again_under_its_parent_and_handle():
    removal = bucket_removal(7, 0x10013, 0x230000)
    creation = bucket_change(7, 0x10013, 0x230000, rate_bytes_per_s=9, burst_bytes=4300, limit_bytes=9, create=True)
    heads = [struct.unpack_from("=IHHII", message)[:3] for message in (removal, creation)]
    assert heads == [(36, 37, 0x1), (len(creation), 36, 0x1 | 0x200 | 0x400)]
    for message in (removal, creation):
        assert struct.unpack_from("=BxxxiIII", message, 16) == (0, 7, 0x230000, 0x10013, 0)


def test_the_description_survives_json():
    ports = LabPorts(
        ports=(SwitchPort(name="leaf1:1", interface="x", switch=1, peer=None, rate_bps=5),),
        nics=(NicEnd(pid=9, device="eth0", slot=0),),
    )
    settings = QueueSettings(ecn=False, kmin_bytes=9, classes=(*CLASSES, DATA._replace(priority=5)))
    assert from_wire(json.loads(json.dumps(to_wire(ports, settings)))) == (ports, settings)
