"""The end of probes that return by their SIDs: what it sends is what scapy reads, and only its own probes count."""

import asyncio
import ipaddress

import pytest
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from heddle.probing.agent import returning
from heddle.probing.agent.end import UNSENT_US
from heddle.probing.agent.orders import SidOrder
from heddle.probing.agent.returning import ReturningEnd

SOURCE, FIRST, SECOND = (int(ipaddress.IPv6Address(text)) for text in ("fcbb:0:1::", "fcbb:0:e001::", "fcbb:0:e002::"))
ROUTE = "Iface\tDestination\tGateway\neth0\t00000000\t0100000A\n"
ARP = "IP address HW type Flags HW address Mask Device\n10.0.0.1 0x1 {flags} 02:00:00:00:00:01 * eth0\n"


class Loop:
    """A socket that gets back what is sent, but for `lost` addresses."""

    def __init__(self):
        self.lost, self.inbox, self.sent, self.refuses = set(), [], [], False

    def getsockname(self):
        return "eth0", 0x86DD, 0, 1, bytes.fromhex("020000000009")

    def send(self, frame):
        if self.refuses:
            raise OSError("the device is down")
        parsed = Ether(frame)
        self.sent.append(parsed)
        if parsed[IPv6].dst not in self.lost:
            self.inbox.append(frame[:24] + bytes(30) + frame[54:])  # its addresses as switches left them

    def recv(self, size):
        if not self.inbox:
            raise BlockingIOError
        return self.inbox.pop(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def loop(monkeypatch, tmp_path):
    found = Loop()
    monkeypatch.setattr(returning, "ping_socket", lambda device: found)
    (tmp_path / "route").write_text(ROUTE)
    (tmp_path / "arp").write_text(ARP.format(flags="0x2"))
    return found


def order(*sids, timeout_s=0.01):
    return SidOrder(1, 0x0A000002, SOURCE, sids, 10_000.0, timeout_s, 26)


async def test_a_probe_carries_its_address_to_the_leaf_with_the_data_s_dscp_and_no_next_header(loop, tmp_path):
    end = ReturningEnd("eth0", tmp_path)
    found = await end.run(order(FIRST, SECOND, timeout_s=0.3))
    assert ([rtt > 0 for rtt in found.rtt_us], found.sent, found.late) == ([True, True], 2, False)
    first, second = loop.sent
    assert (first.dst, first.src) == ("02:00:00:00:00:01", "02:00:00:00:00:09")
    assert [each[IPv6].dst for each in (first, second)] == ["fcbb:0:e001::", "fcbb:0:e002::"]
    assert (first[IPv6].src, first[IPv6].tc, first[IPv6].nh, first[IPv6].hlim) == ("fcbb:0:1::", 26 << 2, 59, 64)
    assert first[IPv6].plen == len(bytes(first[IPv6].payload))
    end.close()


async def test_a_probe_that_does_not_return_is_lost_and_one_that_cannot_leave_is_not_sent(loop, tmp_path):
    end = ReturningEnd("eth0", tmp_path)
    loop.lost = {"fcbb:0:e001::"}
    assert [rtt > 0 for rtt in (await end.run(order(FIRST, SECOND))).rtt_us] == [False, True]
    loop.refuses = True
    assert (await end.run(order(FIRST))).rtt_us == [UNSENT_US]
    end.close()


async def test_without_the_leaf_s_mac_address_nothing_is_sent_until_it_is_known(loop, tmp_path):
    (tmp_path / "arp").write_text(ARP.format(flags="0x0"))
    end = ReturningEnd("eth0", tmp_path)
    assert (await end.run(order(FIRST))).rtt_us == [UNSENT_US]
    assert (loop.sent, end.counts["sids_without_next_hop"]) == ([], 1)
    (tmp_path / "arp").write_text(ARP.format(flags="0x2"))
    assert (await end.run(order(FIRST))).rtt_us[0] > 0
    end.close()


async def test_what_was_not_sent_by_an_open_order_is_counted_and_changes_nothing(loop, tmp_path):
    end = ReturningEnd("eth0", tmp_path)
    loop.lost = {"fcbb:0:e001::"}
    running = asyncio.create_task(end.run(order(FIRST, timeout_s=0.05)))
    while not loop.sent:
        await asyncio.sleep(0.001)
    mine = bytes(loop.sent[0])
    for forged in (mine[:54] + bytes(8) + mine[62:], mine[:69] + b"\x07" + mine[70:], mine[:70] + bytes(16), b""):
        loop.inbox.append(forged)
    assert (await running).rtt_us == [0]
    assert end.counts["sids_unasked"] == 4
    end.close()
