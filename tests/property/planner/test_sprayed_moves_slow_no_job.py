"""Moves of sprayed flows are judged by all their paths: no job's mean or worst share falls, and something is gained."""

from collections import defaultdict
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.write import fabric_document
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.moves import MAX_MOVES, NO_MOVES, MoveLimit, Whose
from heddle.controller.model.plan import Infeasible, Replan
from heddle.controller.planner.online import OnlinePlanner
from heddle.testing.plans.contract_loads import between_switches, heaviest
from heddle.testing.plans.contract_network import Network
from heddle.testing.plans.contract_rates import fair_shares
from tests.support.examples import examples
from tests.support.fabrics.planning import plan_as_json
from tests.support.fabrics.small_fabrics import clos3
from tests.unit.brain.driver import small_fabric

FABRICS = (small_fabric(3, 3, 3), small_fabric(4, 2, 4), clos3(2, 2, 2, 2, 10**9))
HAIR = Fraction(1, 10**6)


@st.composite
def requests(draw: st.DrawFn, fabric: Fabric, name: str) -> JobRequest:
    """Draw a job whose flows run together, each over one path or several; no NIC receives from two."""
    nics = [nic.id for nic in fabric.nics]
    targets = draw(st.permutations(range(len(nics))))
    pairs = [(a, b) for a, b in enumerate(targets) if a != b][: draw(st.integers(1, len(nics)))]
    rate = draw(st.sampled_from([0, 3 * 10**8, 7 * 10**8, 10**9]))
    flows = tuple(FlowDemand(src_rank=a, dst_rank=b, rate_bps=rate) for a, b in pairs)
    paths = draw(st.sampled_from([1, 2, 2, 3] if len(fabric.switches) < 8 else [1, 2]))
    one = Collective(kind=CollectiveKind.CUSTOM, flows=flows, paths_per_flow=paths)
    return JobRequest(job_id=name, ranks=tuple(nics), collectives=(one,))


class Seen:
    """What an independent reading of the contract makes of a plan: shares of jobs, and the fullest link."""

    def __init__(self, fabric: Fabric, plan: Replan) -> None:
        network, flows = Network(fabric_document(fabric)), []
        for job in plan_as_json(plan, fabric)["jobs"]:  # type: ignore[arg-type]
            flows += [{**flow, "job": job["job_id"]} for flow in job["flows"]]
        of_job = defaultdict(list)
        for name, share in fair_shares(network, flows).items():
            of_job[name.split("/")[0]].append(share)
        self.shares = {job: (sum(each) / len(each), min(each)) for job, each in of_job.items()}
        loads = heaviest(flows, between_switches)
        self.fullest = max((Fraction(load) / network.capacity[link] for link, load in loads.items()), default=0)


@given(data=st.data(), fabric=st.sampled_from(FABRICS))
@settings(max_examples=examples(40), deadline=None)
def test_moves_of_sprayed_flows_lower_no_jobs_share_and_gain_something(data: st.DataObject, fabric: Fabric) -> None:
    planner, kept, cables = OnlinePlanner(fabric), [], [cable.id for cable in fabric.cables]
    health = Health()
    for number in range(data.draw(st.integers(2, 4))):
        arriving: list[JobRequest] = []
        event = data.draw(st.sampled_from(["arrival", "arrival", "release", "failure"]))
        if event == "release" and kept:
            kept.pop(data.draw(st.integers(0, len(kept) - 1)))
        elif event == "failure":
            health = Health(down_cables=frozenset(data.draw(st.lists(st.sampled_from(cables), max_size=1))))
        else:
            arriving = [data.draw(requests(fabric, f"job{number}"))]
        subject = arriving[0].job_id if arriving else ""
        limit = MoveLimit(whose=Whose.ANY, max_flows=data.draw(st.sampled_from([1, 3, 64, MAX_MOVES])))
        without = OnlinePlanner(fabric).solve(arriving, health=health, kept=kept, limit=NO_MOVES, subject=subject)
        found = planner.solve(arriving, health=health, kept=kept, limit=limit, subject=subject)
        if isinstance(found, Infeasible) or isinstance(without, Infeasible):
            assert type(found) is type(without)
            continue
        known = [request for request, _ in kept] + arriving
        is_sprayed = any(request.collectives[0].paths_per_flow > 1 for request in known)
        more = sum(each.flows for each in found.moved.values()) - sum(each.flows for each in without.moved.values())
        check(Seen(fabric, without), Seen(fabric, found), gains=is_sprayed and more > 0)
        kept = list(zip(known, found.jobs, strict=True))


def check(stay: Seen, moved: Seen, *, gains: bool) -> None:
    """Compare the shares; where something `gains`, a share rises or the fullest link has less."""
    pairs = [(stay.shares[job][at], moved.shares[job][at]) for job in stay.shares for at in (0, 1)]
    assert all(now >= was * (1 - HAIR) for was, now in pairs)
    assert not gains or any(now > was for was, now in pairs) or moved.fullest * (1 + HAIR) < stay.fullest
