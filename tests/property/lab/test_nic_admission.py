"""Admission windows against the contract's definition, instant by instant."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.nic.admission import AdmissionWindow

NOW = 1_700_000_000_000_000_000
windows = st.integers(1, 64).flatmap(
    lambda slots: st.builds(AdmissionWindow, st.integers(0, slots - 1), st.just(slots), st.integers(1, 10**9))
)


def may_send(window, unix_ns):
    return unix_ns // window.slot_ns % window.slots == window.slot


@given(window=windows, after=st.integers(0, 10**12))
def test_a_window_is_open_exactly_when_the_contract_defines_it(window, after):
    unix_ns = NOW + after
    opens, closes = window.open_interval(unix_ns)
    assert (opens <= unix_ns < closes) == may_send(window, unix_ns)


@given(window=windows, after=st.integers(0, 10**12))
def test_the_interval_is_a_whole_slot_and_the_next_one(window, after):
    unix_ns = NOW + after
    opens, closes = window.open_interval(unix_ns)
    assert closes - opens == window.slot_ns
    assert may_send(window, opens)
    assert may_send(window, closes - 1)
    assert window.slots == 1 or not may_send(window, opens - 1)
    assert opens - unix_ns <= window.slots * window.slot_ns
