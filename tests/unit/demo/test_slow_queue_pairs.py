import pytest

from heddle.mininet_topos.nic.settings import NicSettings

SETTINGS = NicSettings(ack_every=8, ack_timeout_ns=400_000_000)


@pytest.mark.parametrize("rate_bps", [10_000, 80_000, 400_000, 1_000_000, 20_000_000])
def test_the_packets_of_one_acknowledgement_take_less_than_half_the_timeout_or_are_one(rate_bps):
    packets = SETTINGS.ack_every_at(rate_bps)
    assert packets == 1 or packets * 4154 * 8 / rate_bps <= 0.2


def test_a_fast_queue_pair_is_acknowledged_as_seldom_as_the_settings_say():
    assert SETTINGS.ack_every_at(20_000_000) == 8
