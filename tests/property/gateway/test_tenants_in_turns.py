"""Random changes of two tenants that take over each other's VNIs, VLANs and addresses: neither notices the other.

No connection outlives its VPC, peering, direct connect or floating IP (`tenants_in_turns`). `make soak` makes a million
changes.
"""

import os
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.property.gateway.tenants_in_turns import KINDS, PUBLIC, SLOTS, TENANTS, VLANS, VNIS, TenantsInTurns
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

CHANGES = int(os.environ.get("HEDDLE_VPC_CHANGES", "1000000"))
WHO, WHICH, LAST, PORTS = (st.sampled_from(each) for each in (TENANTS, SLOTS, (10, 11), (5000, 5001)))


class TenantsMachine(RuleBasedStateMachine):
    """Each rule is a change of one tenant, or a packet."""

    @initialize(started_s=st.sampled_from([10, 1000]))
    def begin(self, started_s):
        self.site = TenantsInTurns(started_s=started_s)

    @rule(tenant=WHO, number=WHICH, vni=st.sampled_from(VNIS))
    def make(self, tenant, number, vni):
        self.site.make(tenant, number, vni)

    @rule(tenant=WHO, number=WHICH)
    def remove(self, tenant, number):
        self.site.remove(tenant, number)

    @rule(tenant=WHO, number=WHICH, public=st.sampled_from(PUBLIC), last=LAST)
    def bind(self, tenant, number, public, last):
        self.site.bind(tenant, number, public, last)

    @rule(tenant=WHO, number=WHICH, vlan=st.sampled_from(VLANS))
    def connect(self, tenant, number, vlan):
        self.site.connect(tenant, number, vlan)

    @rule(tenant=WHO)
    def peer(self, tenant):
        self.site.peer(tenant)

    @rule(tenant=WHO, number=WHICH)
    def translate(self, tenant, number):
        self.site.translate(tenant, number)

    @rule(tenant=WHO, number=WHICH, kind=st.sampled_from(KINDS), last=LAST, port=PORTS)
    def open(self, tenant, number, kind, last, port):
        self.site.open(tenant, number, kind, last, port)

    @precondition(lambda self: self.site.sessions)
    @rule(number=st.integers(0, 40), side=st.integers(0, 1))
    def poke(self, number, side):
        self.site.poke(number, side)

    @rule()
    def away(self):
        self.site.away()

    @rule()
    def back(self):
        self.site.back()


TestTenants = TenantsMachine.TestCase
TestTenants.settings = settings(max_examples=examples(30), stateful_step_count=40, deadline=None)


def turn(site, chance):
    """Make one random change of one tenant, with some packets around it."""
    pick, before = chance.choice, site.step
    who, which = pick(TENANTS), pick(SLOTS)
    changes = (
        lambda: site.make(who, which, pick(VNIS)),
        lambda: site.make(who, which, pick(VNIS)),
        lambda: site.remove(who, which),
        lambda: site.bind(who, which, pick(PUBLIC), pick((10, 11))),
        lambda: site.bind(who, which, pick(PUBLIC), pick((10, 11))),
        lambda: site.connect(who, which, pick(VLANS)),
        lambda: site.peer(who),
        lambda: site.translate(who, which),
    )
    pick(changes)()
    if chance.random() < 0.05:
        site.away()
    elif chance.random() < 0.5:
        site.back()
    for _ in range(chance.randrange(4)):
        site.open(pick(TENANTS), pick(SLOTS), pick(KINDS), pick((10, 11)), pick((5000, 5001)))
    for _ in range(chance.randrange(4)):
        site.poke(chance.randrange(40), chance.randrange(2))
    return site.step - before


def run(changes, seed):
    """Make a number of changes, anew every thousand; return how many connections were opened, tried and were gone."""
    done, chance, seen = 0, random.Random(seed), [0, 0, 0]
    while done < changes:
        site = TenantsInTurns(started_s=chance.choice((10, 1000)))
        while site.step < min(1000, changes - done):
            turn(site, chance)
        done += site.step
        seen = [a + b for a, b in zip(seen, (site.opened, site.poked, site.refused), strict=True)]
    return seen


def test_many_changes_in_a_row_meet_connections_of_all_kinds():
    opened, poked, refused = run(100, seed=1)
    assert opened > 10
    assert poked > 10
    assert refused > 2


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_million_changes_of_two_tenants():
    opened, poked, refused = run(CHANGES, seed=2)
    assert min(opened, poked, refused) > CHANGES // 50
