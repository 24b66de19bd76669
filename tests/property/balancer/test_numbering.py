"""Services and back ends keep their numbers as long as they exist, and no number is given to two at a time."""

from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.balancer.compiler.numbering import MAX_BACK_ENDS, Numbering, numbered
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer

ends = st.sets(st.integers(1, 12), min_size=1).map(
    lambda found: tuple(BackEnd(ip=IPv4Address(f"10.0.0.{last}"), port=80) for last in sorted(found))
)
services = st.dictionaries(st.integers(1, 6), ends, max_size=5).map(
    lambda found: [
        LoadBalancer(id=f"lb{port}", vpc="red", vip=IPv4Address("10.0.0.100"), port=port, back_ends=back_ends)
        for port, back_ends in found.items()
    ]
)


@given(history=st.lists(services, max_size=8))
def test_numbers_are_kept_and_never_given_twice(history):
    numbering, owner = Numbering(), {}
    for balancers in history:
        before, numbering = numbering, numbered(numbering, balancers)
        rows = [number % MAX_BACK_ENDS for number in numbering.back_ends.values()]
        assert len(set(rows)) == len(rows) == sum(len(each.back_ends) for each in balancers)
        assert len(set(numbering.services.values())) == len(balancers)
        for kept in before.services.keys() & numbering.services.keys():
            assert before.services[kept] == numbering.services[kept]
        for end in before.back_ends.keys() & numbering.back_ends.keys():
            assert before.back_ends[end] == numbering.back_ends[end]
        for end, number in numbering.back_ends.items():
            if end not in before.back_ends:
                assert number not in owner
            owner[number] = end
