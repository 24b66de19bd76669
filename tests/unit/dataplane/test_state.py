"""The state of gateway and balancer: what is shared is in both, and no word of `counts` has two meanings."""

import pytest

from heddle.dataplane.balancer.memory import state as balancer
from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory import state as shared
from heddle.dataplane.gateway.memory import state as gateway

LIMITS = Limits(connections=16, mappings=16, fragments=16)


@pytest.mark.parametrize("program", [gateway, balancer])
def test_a_state_has_its_arrays_and_the_shared_ones(program):
    layout = program.layout(LIMITS)
    assert set(layout) == set(program.State._fields)
    assert set(shared.layout(16, 0)) <= set(layout)
    assert {name: (array.shape, array.dtype) for name, array in program.empty_state(LIMITS)._asdict().items()} == layout


def test_words_of_counts_are_distinct():
    common = [
        shared.JOURNAL_ON,
        shared.JOURNAL_HEAD,
        shared.JOURNAL_TAIL,
        shared.JOURNAL_LOST,
        shared.RESEND_LEFT,
        shared.SEED,
        shared.PARTNER_REFUSED,
        shared.ACCOUNTS_FREED,
        shared.ACCOUNTS_USED,
        shared.FRAGMENTS_HELD,
        shared.FRAGMENTS_AGED_NS,
        shared.FRAGMENTS_NEXT,
    ]
    own = [value for name, value in vars(gateway).items() if name.endswith(("_FREED", "_USED", "_ENDED"))]
    own += [gateway.AGED_NS, gateway.AGED_NEXT, gateway.RESEND_ALL, gateway.RECLAIMED, gateway.STARTED_NS]
    assert len(set(common)) == len(common) == 12
    assert len(set(own)) == len(own) == 15
    assert max(common) < shared.FIRST_OWN_WORD <= min(own) <= max(own) < shared.COUNTS
