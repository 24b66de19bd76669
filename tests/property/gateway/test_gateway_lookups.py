"""Route and rule lookups against `ipaddress` and a loop over the rules."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.gateway.elements.admission.filter import allowed
from heddle.dataplane.gateway.elements.routing import longest
from heddle.dataplane.jit import kernel
from heddle.dataplane.tables.schema import DISCARD, Tables
from tests.fakes.gateway.gateway_tables import FakeRule, FakeVpc, make_tables, wide, words
from tests.oracles.vpc_lookup import best_route, first_verdict

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


# Few different bits, so that prefixes lie within each other and addresses in them.
V4 = st.builds(lambda a, b: ip_address(0x0A000000 | a << 23 | b), st.integers(0, 3), st.integers(0, 7))
V6 = st.builds(lambda a, b: ip_address(0x2001 << 112 | a << 62 | b), st.integers(0, 7), st.integers(0, 3))


def prefixes(addresses, most):
    lengths = st.one_of(st.sampled_from([0, 1, most - 2, most - 1, most]), st.integers(0, most))
    return st.builds(lambda a, n: str(ip_network(f"{a}/{n}", strict=False)), addresses, lengths)


PREFIXES = st.one_of(prefixes(V4, 32), prefixes(V6, 128))
ADDRESSES = st.one_of(V4, V6)


@kernel
def route_of(tables: Tables, vpc, hi, lo, family):
    return longest(tables, vpc, hi, lo, family)


@kernel
def verdict_of(tables: Tables, vpc, default, family, protocol, hi, lo, port):
    row = tables.vpcs[vpc]
    return allowed(tables, row.rules_in, row.rules_in_count, default, family, protocol, hi, lo, port)


@given(
    mine=st.lists(PREFIXES, max_size=12, unique=True),
    others=st.lists(PREFIXES, max_size=12, unique=True),
    address=ADDRESSES,
)
def test_the_longest_prefix_of_the_vpc_wins(mine, others, address):
    tables = make_tables(
        [FakeVpc(9, routes=dict.fromkeys(others, DISCARD)), FakeVpc(7, routes=dict.fromkeys(mine, DISCARD))]
    )
    hi, lo = words(wide(address))
    found = route_of(tables, 1, hi, lo, address.version)
    # Next hops are numbered in the order of the routes, the other VPC's before.
    named = str(ip_network(mine[found - len(others)])) if found >= 0 else None
    wanted = best_route(mine, address)
    assert named == (str(wanted) if wanted is not None else None)


RULES = st.builds(
    lambda allow, protocol, remote, low, high: (allow, protocol, remote, (min(low, high), max(low, high))),
    st.booleans(),
    st.sampled_from([0, 1, 6, 17]),
    PREFIXES,
    st.sampled_from([0, 1, 80, 443]),
    st.sampled_from([0, 80, 443, 65535]),
)


@given(
    rules=st.lists(RULES, max_size=6),
    others=st.lists(RULES, max_size=3),
    default=st.booleans(),
    protocol=st.sampled_from([1, 6, 17, 47, 58]),
    remote=ADDRESSES,
    port=st.sampled_from([0, 1, 79, 80, 443, 65535]),
)
def test_the_first_rule_that_matches_decides(rules, others, default, protocol, remote, port):
    vpcs = [FakeVpc(3, rules_in=tuple(FakeRule(*rule) for rule in others))]
    vpcs.append(FakeVpc(7, rules_in=tuple(FakeRule(*rule) for rule in rules)))
    tables = make_tables(vpcs)
    hi, lo = words(wide(remote))
    verdict = verdict_of(tables, 1, default, remote.version, protocol, hi, lo, port)
    assert verdict == first_verdict(rules, default, protocol, remote, port)
