"""Jobs that compute and send in turns: which NICs send again, when, and which ends are noted. No NIC runs."""

import json
import os
import threading
import time
from collections import deque

import pytest

from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.measure.iterations import IteratedJob, Iterations

MS = 1_000_000


class FakeNic:
    """The child process of a NIC: a post is answered, and its data is sent after `sends_ms`, again and again."""

    def __init__(self, sends_ms: float):
        self.fd, self._far = os.pipe()
        self.sends_s, self.events, self.posted, self._replies = sends_ms / 1e3, [], [], deque()
        self._unread = b""
        self.start()

    def start(self):
        threading.Timer(self.sends_s, os.write, (self._far, b'{"event": "complete"}\n')).start()

    def send_request(self, **request):
        self.posted.append((request["op"], request["qpns"], request["size_bytes"]))
        self._replies.append({"ok": True})
        self.start()

    def read_reply(self):
        return self._replies.popleft()

    def poll_events(self):
        self.events += [json.loads(line) for line in os.read(self.fd, 4096).splitlines()]


def request(nic: str, to: str) -> FlowRequest:
    return FlowRequest(
        flow_id=f"{nic}>{to}", src_nic=nic, dst_nic=to, udp_source_port=1, reverse_udp_source_port=1, rate_bps=1,
        size_bytes=4096,
    )  # fmt: skip


def job(name: str, *nics: str, compute_ms: int = 5) -> IteratedJob:
    pairs = zip(nics, (*nics[1:], nics[0]), strict=True)
    return IteratedJob(name=name, requests=[request(*pair) for pair in pairs], compute_ns=[compute_ms * MS])


def test_an_iteration_ends_with_the_slowest_nic_and_all_nics_of_the_job_then_send_again():
    nics = {"n1": FakeNic(1), "n2": FakeNic(20), "n3": FakeNic(1)}
    iterations = Iterations([job("a", "n1", "n2"), job("b", "n3")], nics)  # type: ignore[arg-type]
    iterations.drive({"n1>n2": 10, "n2>n1": 12, "n3>n3": 14}, time.monotonic_ns(), 0.2)
    ended = iterations.ended_ns
    assert nics["n1"].posted[:2] == [("post", [10], 4096)] * 2
    assert len(nics["n1"].posted) == len(nics["n2"].posted)
    assert len(ended["a"]) - len(nics["n1"].posted) in (0, 1), "the time may be over while a job computes"
    gaps = [later - earlier for earlier, later in zip(ended["a"], ended["a"][1:], strict=False)]
    assert min(gaps) >= 24 * MS
    assert len(ended["b"]) > len(ended["a"])
    assert all(late >= 0 for late in iterations.lateness_ns)


def test_a_nic_cannot_send_for_two_jobs():
    with pytest.raises(ValueError, match=r"^a NIC sends for two jobs$"):
        Iterations([job("a", "n1", "n2"), job("b", "n2", "n3")], {})
