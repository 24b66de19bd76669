"""The words of the tables that a takeover changes, and no others."""

from ipaddress import IPv4Address
from itertools import pairwise

import numpy as np
import pytest

from heddle.dataplane.control.pair.duties import ALONE, PairWork, on_duty, terms_of
from heddle.dataplane.control.slow.directory import Duty
from heddle.dataplane.tables.schema import OWN_ACTIVE, OWN_PORTLESS, OWN_TAKEN_VTEP, Tables
from tests.fakes.gateway.pair_ports import pair_of

STANDBY = PairWork(active=False, taken_vtep=None, duty=Duty(own=False, public=False))
BOTH = PairWork(active=True, taken_vtep=IPv4Address("192.0.2.7"), duty=Duty())


@pytest.mark.parametrize(("work", "words"), [(ALONE, (1, 0, 1)), (STANDBY, (0, 0, 0)), (BOTH, (1, 0xC0000207, 1))])
def test_a_takeover_changes_three_words_and_shares_all_other_arrays(work, words):
    tables = Tables._make(np.full(20, 9, dtype=np.int64) for _ in Tables._fields)
    before = tables.own.copy()
    found = on_duty(tables, work, 41)
    assert (found.own[OWN_ACTIVE], found.own[OWN_TAKEN_VTEP], found.own[OWN_PORTLESS]) == words
    rest = np.delete(np.arange(20), (OWN_ACTIVE, OWN_TAKEN_VTEP, OWN_PORTLESS))
    assert (found.own[rest] == 9).all()
    assert (tables.own == before).all()
    assert found.generation.tolist() == [41]
    assert found.generation.dtype == np.int64
    others = [name for name in Tables._fields if name not in ("own", "generation")]
    assert all(getattr(found, name) is getattr(tables, name) for name in others)


def test_addresses_are_announced_again_once_switches_have_forgotten_the_flows_of_earlier_announcements():
    pair = pair_of()["a"]
    times_ms = [0, *(ticks * pair.interval_ms for ticks in terms_of("a", pair).announce_ticks)]
    assert max(later - earlier for earlier, later in pairwise(times_ms)) > 11_000
