"""MAC addresses as text."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.foundation.address import mac_text


@given(st.integers(0, 2**48 - 1))
def test_a_mac_address_is_six_octets_most_significant_first(mac):
    octets = mac_text(mac).split(":")
    assert [len(octet) for octet in octets] == [2] * 6
    assert int("".join(octets), 16) == mac
