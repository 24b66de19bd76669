"""A suggested ring over hosts with rails changes its leaf between hosts as rarely as any choice of NICs allows."""

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind
from heddle.controller.model.placement import Shape
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.placement.suggest import suggest
from tests.oracles.ring_over_hosts import changes_of, fewest_changes, splits
from tests.support.examples import examples
from tests.support.fabrics.planner_cases import fabric_of

RING = (Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000),)


def rails_of(rails, hosts):
    """Return a fabric of one group of hosts, each with a NIC on each of the leaves."""
    return fabric_of(kind="rail_optimised", spines=rails, leaves=rails, hosts_per_leaf=hosts, nics_per_host=rails)


def best(fabric, ranks, health):
    """Return host and leaf of each rank of the best suggestion, and its utilisation; None where there is no room."""
    found = suggest(fabric, Shape(ranks=ranks, collectives=RING), health=health)
    if isinstance(found, Infeasible):
        return None
    nics = [fabric.nic_by_id[nic] for nic in found[0].nics]
    return [(nic.host, nic.port.switch) for nic in nics], found[0].own_max_link_utilisation


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(2, 4), st.integers(1, 4), st.data())
def test_on_a_free_fabric_no_split_over_as_many_hosts_is_better(rails, hosts, data):
    ranks = data.draw(st.integers(1, rails * hosts))
    leaves, utilisation = best(rails_of(rails, hosts), ranks, Health())
    used = len({host for host, _ in leaves})
    assert used == -(-ranks // rails)
    wanted = min(fewest_changes([range(rails)] * used, counts) for counts in splits(ranks, [rails] * used))
    if used > 1:
        assert changes_of(leaves) == wanted
        assert (utilisation == 0) == (wanted == 0)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(2, 4), st.integers(2, 3), st.data())
def test_where_nics_are_out_of_use_no_choice_on_the_same_hosts_is_better(rails, hosts, data):
    fabric = rails_of(rails, hosts)
    down = data.draw(st.sets(st.sampled_from([nic.id for nic in fabric.nics]), max_size=len(fabric.nics) // 2))
    found = best(fabric, data.draw(st.integers(1, rails * hosts)), Health(down_nics=frozenset(down)))
    if found is None:
        return
    leaves, _ = found
    counts = {host: len(list(ranks)) for host, ranks in groupby(leaves, key=lambda one: one[0])}
    free = [[nic.port.switch for nic in fabric.nics if nic.host == host and nic.id not in down] for host in counts]
    if len(counts) > 1:
        assert changes_of(leaves) <= fewest_changes(free, list(counts.values()))
