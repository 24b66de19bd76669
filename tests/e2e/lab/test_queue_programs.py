"""The BPF programs on single frames in the kernel (BPF_PROG_TEST_RUN), against a model in plain Python."""

import ctypes
import platform
import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from heddle.dataplane.io.af_xdp.bpf import CALL_NUMBERS
from heddle.mininet_topos.queues.attach import QueueModelPrograms
from heddle.mininet_topos.queues.description import LabPorts, SwitchPort
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.queue_model import why_unavailable
from tests.support.examples import examples

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
]

BPF_PROG_TEST_RUN = 10
TAKEN, STOLEN = 0, 4
NOT_ECT, ECT1, ECT0, CE = range(4)
PRIORITY_AT = 32  # of struct __sk_buff
libc = ctypes.CDLL(None, use_errno=True)

# pmax 1 and kmax just above kmin: every ECT frame above is marked, none below, so that the model needs no chance.
SETTINGS = QueueSettings(kmin_bytes=20_000, kmax_bytes=20_001, pmax=1.0, buffer_bytes=140_000, xoff_bytes=30_000)
KMIN, KMAX, BUFFER = 20_000, 12 * 4170, 140_000
BOUND_OF_ARRIVALS = 30_000 + 220_000
PORT = SwitchPort(name="leaf1:1", interface="", switch=1, peer=None, rate_bps=20_000_000)


class Programs(QueueModelPrograms):
    """The loaded programs, run on test frames (smaller than a page) as attachment 0."""

    def __init__(self) -> None:
        super().__init__(LabPorts(ports=(PORT,), nics=()), SETTINGS)

    def run(self, name: str, frame: bytes) -> tuple[int, bytes, int]:
        """Run a program on a frame; return its verdict, the output frame, and its `skb->priority`."""
        given_frame = ctypes.create_string_buffer(frame, len(frame))
        left = ctypes.create_string_buffer(len(frame) + 256)
        context_in, context_out = (ctypes.create_string_buffer(192) for _ in range(2))
        attributes = ctypes.create_string_buffer(
            struct.pack(
                "<IIIIQQIIIIQQ", self._programs[name], 0, len(frame), len(left), ctypes.addressof(given_frame),
                ctypes.addressof(left), 0, 0, 192, 192, ctypes.addressof(context_in), ctypes.addressof(context_out),
            ), 128,
        )  # fmt: skip
        assert libc.syscall(CALL_NUMBERS[platform.machine()], BPF_PROG_TEST_RUN, attributes, 128) == 0
        verdict, _, size = struct.unpack_from("<III", attributes.raw, 4)
        return verdict, left.raw[:size], struct.unpack_from("<I", context_out.raw, PRIORITY_AT)[0]


@pytest.fixture(scope="module")
def programs():
    loaded = Programs()
    yield loaded
    loaded.close()


def frame_of(dscp: int, ecn: int, size: int, port: int = 0xC001) -> bytes:
    head = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    packet = head / IP(src="10.0.0.1", dst="10.0.0.2", tos=dscp << 2 | ecn) / UDP(sport=port, dport=4791)
    return bytes(packet / bytes(size - len(packet)))


@dataclass
class Model:
    """One port's queues and its ingress occupancy, as docs/lab-queues.md specifies them."""

    depth: list[int] = field(default_factory=lambda: [0] * 8)
    inside: list[int] = field(default_factory=lambda: [0] * 8)
    counts: list[list[int]] = field(default_factory=lambda: [[0, 0, 0] for _ in range(8)])

    def enqueue(self, dscp: int, ecn: int, size: int) -> tuple[int, int]:
        """Return the verdict and the ECN field that the frame leaves with."""
        priority = {26: 3, 48: 6}.get(dscp, 0)
        counts, depth = self.counts[priority], self.depth[priority]
        full = self.inside[3] + size > BOUND_OF_ARRIVALS if priority == 3 else depth + size > BUFFER
        if full:
            counts[2] += 1
            return STOLEN, ecn
        marked = ecn in (ECT0, ECT1) and priority != 6 and depth >= KMAX
        counts[0] += 1
        counts[1] += marked
        self.depth[priority] += size
        self.inside[priority] += size
        return TAKEN, CE if marked else ecn


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([0, 10, 26, 48]), st.integers(0, 3), st.sampled_from([100, 1500, 3400])),
        st.tuples(st.just(-1), st.sampled_from([0, 3, 6]), st.integers(0, 60_000)),
    ),
    max_size=120,
)


@settings(max_examples=examples(40))
@given(STEPS)
def test_the_program_takes_marks_drops_and_counts_as_the_model_does(programs, steps):
    programs.queues[:] = 0
    programs.run("ingress", frame_of(26, ECT0, 100))  # the stream is known to have come in by this port
    model, queues = Model(), programs.queues[0]
    for dscp, choice, size in steps:
        if dscp < 0:  # frames leave, and the far end counts them
            size = min(size, model.depth[choice])
            model.depth[choice] -= size
            model.inside[choice] -= size
            queues["dequeued_bytes"][choice] += size
            queues["departed_bytes"][choice] += size
            continue
        priority, at = {26: 3, 48: 6}.get(dscp, 0), model.depth
        if KMIN < at[priority] < KMAX:
            choice = NOT_ECT  # between the thresholds it is chance
        expected, ecn = model.enqueue(dscp, choice, size)
        verdict, left, chosen_class = programs.run("egress", frame_of(dscp, choice, size))
        assert (verdict, left[15] & 3) == (expected, ecn)
        assert len(left) == size
        if verdict == TAKEN:
            assert chosen_class == 0x10010 + priority
            assert IP(left[14:]).chksum == IP(bytes(IP(left[14:34], chksum=None))).chksum
    names = ("enqueued_packets", "marked_packets", "dropped_packets")
    assert [[int(queues[name][priority]) for name in names] for priority in range(8)] == model.counts
    assert (queues["enqueued_bytes"] - queues["dequeued_bytes"]).tolist() == model.depth
    assert (queues["arrived_bytes"] - queues["departed_bytes"]).tolist() == model.inside


def test_between_the_thresholds_marks_come_with_the_chance_that_grows_with_the_queue(programs):
    marked = []
    for depth in (KMIN, (KMIN + KMAX) // 2, KMAX - 1):
        programs.queues[:] = 0
        for _ in range(400):
            programs.queues["enqueued_bytes"][0, 3] = depth
            programs.run("egress", frame_of(26, ECT0, 100, port=1))
        marked.append(int(programs.queues["marked_packets"][0, 3]))
    assert marked[0] == 0
    assert 120 < marked[1] < 280
    assert marked[2] > 380


def test_what_is_not_ipv4_has_priority_0_and_is_counted(programs):
    programs.queues[:] = 0
    frame = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:01") / ARP(pdst="10.0.0.2"))
    assert programs.run("egress", frame)[0::2] == (TAKEN, 0x10010)
    assert programs.queues["enqueued_packets"][0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


def test_a_control_frame_is_left_alone(programs):
    programs.queues[:] = 0
    frame = bytes.fromhex("0180c2000001020000000001" + "8808") + bytes(46)
    assert programs.run("egress", frame)[0::2] == (TAKEN, 0)
    assert not programs.queues["enqueued_packets"].any()


def test_a_stream_that_this_switch_has_not_seen_come_in_counts_for_no_port(programs):
    programs.queues[:] = 0
    assert programs.run("egress", frame_of(26, ECT0, 3000, port=0xDEAD))[0] == TAKEN
    assert (int(programs.queues["enqueued_bytes"][0, 3]), int(programs.queues["arrived_bytes"][0, 3])) == (3000, 0)
