"""Our pause frames byte for byte against scapy's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Ether

from mininet_topos.nic.pause import parse_pause, pause_frame

SOURCE = "02:00:00:00:00:01"


def scapy_frame(quanta: dict[int, int]) -> bytes:
    fields = {f"c{priority}_enabled": 1 for priority in quanta}
    fields |= {f"c{priority}_pause_time": time for priority, time in quanta.items()}
    ether = Ether(src=SOURCE, dst="01:80:c2:00:00:01", type=0x8808)
    return bytes(ether / MACControlClassBasedFlowControl(**fields)).ljust(60, b"\0")


@given(quanta=st.dictionaries(st.integers(0, 7), st.integers(0, 0xFFFF)))
def test_pause_frames_are_those_of_scapy(quanta):
    assert pause_frame(bytes.fromhex(SOURCE.replace(":", "")), quanta) == scapy_frame(quanta)


@given(quanta=st.dictionaries(st.integers(0, 7), st.integers(0, 0xFFFF)))
def test_pause_frames_of_scapy_are_read(quanta):
    frame = scapy_frame(quanta)
    assert parse_pause(frame, len(frame)) == tuple(quanta.get(priority) for priority in range(8))


@pytest.mark.parametrize("at", [12, 13, 14, 15])
def test_another_type_or_opcode_is_no_pause(at):
    frame = bytearray(scapy_frame({3: 9}))
    frame[at] ^= 1
    assert parse_pause(frame, len(frame)) is None
