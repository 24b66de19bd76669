"""The token bucket of a lab's link: small with the queue model, large enough to catch up a stall without it."""

import re

import pytest

from heddle.mininet_topos.wire.shaping import FULL_FRAME_BYTES, QUEUE_BYTES, Egress, catch_up_time_ns

LINE_BPS = 20_000_000


def burst_bytes(command: str) -> int:
    found = re.search(r" burst (\d+) ", command)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("commands", ["switch_commands", "nic_commands"])
def test_after_a_stall_a_link_sends_what_it_would_have_sent(commands):
    stall_ns = 30_000_000
    bucket = getattr(Egress(interface="p1", rate_bps=LINE_BPS, catch_up_ns=stall_ns), commands)[0]
    assert burst_bytes(bucket) * 8 * 10**9 == LINE_BPS * stall_ns


def test_a_link_without_catch_up_still_accepts_the_largest_frame_and_less_than_three_frames():
    for rate_bps in (1_000_000, LINE_BPS):
        burst = burst_bytes(Egress(interface="p1", rate_bps=rate_bps).switch_commands[0])
        assert 9_014 < burst < 3 * FULL_FRAME_BYTES


def test_the_catch_up_bursts_of_all_senders_fit_the_queue_of_a_link():
    stall_ns = catch_up_time_ns(QUEUE_BYTES, LINE_BPS)
    bucket = Egress(interface="p1", rate_bps=LINE_BPS, catch_up_ns=stall_ns).switch_commands[0]
    assert burst_bytes(bucket) <= QUEUE_BYTES / 4
