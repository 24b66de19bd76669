"""A host that refuses a frame: a queue pair that sprays denies the path at once, where the queue is not merely full."""

import errno
from itertools import cycle

import pytest

from heddle.mininet_topos.nic import device
from heddle.mininet_topos.nic.device import RETRY_NS, Nic

PORTS = (0xC000, 0xC001, 0xC002)
MS = 1_000_000


class Socket:
    """Refuses the frames of some source ports with an error of the operating system; receives nothing, or an error."""

    def __init__(self):
        self.refused, self.sent, self.receive_errors = {}, [], cycle([errno.EAGAIN])

    def send(self, frame):
        port = int.from_bytes(frame[34:36], "big")
        if port in self.refused:
            raise OSError(self.refused[port], "refused")
        self.sent.append(port)

    def recv_into(self, _buffer):
        raise OSError(next(self.receive_errors), "nothing")


@pytest.fixture
def nic(monkeypatch):
    socket = Socket()
    monkeypatch.setattr(device, "open_roce_socket", lambda _device: socket)
    monkeypatch.setattr(device, "bind_roce_port", lambda _ip: None)
    monkeypatch.setattr(device, "socket_drops", lambda _socket: 0)
    found = Nic("eth0", "02:00:00:00:00:01", "10.0.0.1", 10 * MS, 10**9)
    requester = {
        "qpn": 0x100, "peer_qpn": 0x200, "peer_ip": "10.0.0.2", "peer_mac": "02:00:00:00:00:02", "first_psn": 0,
        "traffic_class": 26 << 2 | 2, "udp_source_port": PORTS[0], "size_bytes": 4_096_000, "mtu_bytes": 4096,
        "message_bytes": 65536, "window": 128, "ack_every": 4, "timeout_ns": 5_000 * MS, "rate_bps": 10**9,
        "start_offset_ns": 0, "paths": [{"udp_source_port": port} for port in PORTS],
    }  # fmt: skip
    found.open([requester], [])
    found.run(0)
    return found


def states(nic):
    return [path["state"] for path in nic.queue_pairs()["requesters"][0]["paths"]]


def send_for(nic, begin_ms, end_ms):
    for now_ms in range(begin_ms, end_ms):
        nic.send(now_ms * MS)


@pytest.mark.parametrize("error", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN])
def test_a_refused_send_denies_its_path_at_once_and_data_goes_on(nic, error):
    nic.socket.refused = {PORTS[1]: error}
    send_for(nic, 1, 3)
    (queue,) = nic.queue_pairs()["requesters"]
    assert states(nic) == ["active", "denied", "active"]
    assert queue["path_changes"][0]["reason"] == f"send refused: {errno.errorcode[error]}"
    assert set(nic.socket.sent) == {PORTS[0], PORTS[2]}
    assert nic.path_changes == 1
    assert [path["state"] for path in nic.sending_queue_pairs()["queue_pairs"][0]["paths"]] == states(nic)


def test_a_full_queue_denies_nothing_and_is_tried_again(nic):
    nic.socket.refused = dict.fromkeys(PORTS, errno.ENOBUFS)
    assert nic.send(MS) == MS + RETRY_NS
    assert states(nic) == ["active"] * 3
    nic.socket.refused = {}
    send_for(nic, 2, 4)
    assert set(nic.socket.sent) == set(PORTS)


def test_a_port_that_is_down_keeps_one_path_to_try_and_probes_the_others(nic):
    nic.socket.refused = dict.fromkeys(PORTS, errno.ENETDOWN)
    send_for(nic, 1, 3)
    assert sorted(states(nic)) == ["active", "denied", "denied"]
    assert not nic.socket.sent
    nic.socket.refused = {}
    send_for(nic, 190, 230)
    assert set(nic.socket.sent) == set(PORTS)


def test_a_device_that_goes_down_ends_no_nic(nic):
    nic.socket.receive_errors = iter([errno.ENETDOWN, errno.EAGAIN, errno.EBADF])
    nic.receive()
    nic.receive()
    with pytest.raises(OSError, match="nothing"):
        nic.receive()
