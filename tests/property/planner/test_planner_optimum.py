"""On instances small enough for exhaustive search, bounds hold and equal demands have optimal plans."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.testing.plans.contract_network import Network
from tests.oracles.best_plan import least_utilisation
from tests.support.examples import examples
from tests.support.fabrics.planning import fabric_file, planned, shapes

RATES = [10**10, 2 * 10**10, 5 * 10**10, 10**11]
TINY = settings(max_examples=examples(80))


@st.composite
def tiny_cases(draw, rates):
    """A small fabric, maybe with one link failed, and up to five flows of one phase."""
    shape = draw(shapes().filter(lambda shape: shape["spines"] <= 3))
    data = fabric_file(**shape)
    network = Network(data)
    spare = shape["spines"] > 1 and shape["kind"] != "clos3"
    if spare and draw(st.booleans()):
        data["failed"] = [draw(st.sampled_from(sorted(network.switch_links)))]
    nics = sorted(network.nics)
    ends = st.lists(st.sampled_from(range(len(nics))), min_size=2, max_size=2, unique=True)
    assume(len(nics) > 1)
    pairs = draw(st.lists(ends, min_size=1, max_size=5))
    flows = [{"src_rank": a, "dst_rank": b, "rate_bps": draw(rates)} for a, b in pairs]
    job = {"job_id": "tiny", "ranks": nics, "collectives": [{"kind": "CUSTOM", "flows": flows}]}
    return data, {"version": 1, "jobs": [job]}


def best_of(data, jobs):
    network, job = Network(data), jobs["jobs"][0]
    flows = [
        (job["ranks"][f["src_rank"]], job["ranks"][f["dst_rank"]], f["rate_bps"])
        for f in job["collectives"][0]["flows"]
    ]
    apart = [(a, b, rate) for a, b, rate in flows if network.nics[a]["host"] != network.nics[b]["host"]]
    return least_utilisation(network, [(network.leaf(a), network.leaf(b), rate) for a, b, rate in apart])


@given(case=tiny_cases(st.sampled_from(RATES)))
@TINY
def test_no_choice_of_paths_beats_the_lower_bound_and_none_is_far_better_than_the_plan(case):
    best = best_of(*case)
    assume(best is not None)
    certificate = planned(*case).certificate
    assert certificate.lower_bound <= float(best) * (1 + 1e-12)
    assert float(best) <= certificate.max_link_utilisation * (1 + 1e-12)
    assert certificate.max_link_utilisation <= 1.5 * float(best) * (1 + 1e-12)


@given(case=tiny_cases(st.just(10**10)))
@TINY
def test_equal_demands_get_an_optimal_plan(case):
    best = best_of(*case)
    assume(best is not None)
    assert planned(*case).certificate.max_link_utilisation == float(best)
