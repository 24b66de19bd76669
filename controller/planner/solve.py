"""Plan jobs: the entry point of the planner, which returns a certified plan or the reason why there is none.

There are two steps, so that a caller can measure them separately. `draft` finds paths, ports and rates, which is all
that the network needs. `certified` computes the figures of the whole plan and its lower bound. `solve` does both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Infeasible, JobFlows, Plan, Stream
from heddle.controller.planner.beside import paths_beside
from heddle.controller.planner.gone import staying, with_gone
from heddle.controller.planner.ground.clos import Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand, joined_flows, repeats
from heddle.controller.planner.ground.flow_table import FlowTable, path_links, sprays_over
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import link_loads, utilisation
from heddle.controller.planner.ground.path_sets import job_loads
from heddle.controller.planner.ground.paths import Paths, joined_paths, merged_paths
from heddle.controller.planner.ground.placed import Placed, placed_paths, with_guards
from heddle.controller.planner.ground.streams import Streams, tuple_keys
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.planner.incast.conserving import conserving_flows, part_of
from heddle.controller.planner.incast.notes import incast_notes
from heddle.controller.planner.incast.windows import admitted
from heddle.controller.planner.ports.pins import refuse_taken_tuples, streams_to_guard
from heddle.controller.planner.ports.reverse import reverse_only_links, reverse_paths
from heddle.controller.planner.ports.steering import PortTable, port_table_of, ports_of
from heddle.controller.planner.proof.certificate import certify, own_utilisation, own_utilisations
from heddle.controller.planner.proof.ecmp import ecmp_figures, name_of
from heddle.controller.planner.proof.fluid import completion_ns, fair_shares, planned_rates
from heddle.controller.planner.proof.hashed import HashedLoads
from heddle.controller.planner.refusal import dead_nic, no_path, too_full
from heddle.controller.planner.route import Router
from heddle.controller.planner.spread.figures import spraying
from heddle.controller.planner.spread.lists import may_spray, seated, sprayed, without_turns
from heddle.controller.planner.spread.sprayed import Sprayed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draft:
    """Paths, ports and rates for all jobs, kept ones first, without a certificate.

    `old` are the flows of running jobs, `whole` all flows in the order of `jobs`. `loads` are in bit/s per directed
    link, `rates` in bit/s per flow, while it may send where there are `turns`. `guards` are, per new job, the streams
    that its pins must not move. `moved` marks the flows of running jobs whose path was dead and has been replaced; None
    where running jobs keep their paths in any case. `left` has the capacities that `rates` are for: links into NICs
    may carry traffic of no job. `sprayed` has the lists of flows with several paths, of which `whole` has the planned
    one; None where no flow has several.
    """

    router: Router
    jobs: Sequence[JobRequest]
    kept: Sequence[Placed]
    old: Paths
    whole: Paths
    loads: Floats
    rates: Ints
    turns: Turns | None
    guards: dict[int, tuple[Stream, ...]]
    left: Topology
    moved: Flags | None = None
    conserving: Flags | None = None
    sprayed: Sprayed | None = None

    def replaced(self) -> list[bool]:
        """Return for each job whether some of its flows have been placed again, or are sprayed over other paths."""
        found: Flags = np.zeros(len(self.jobs), dtype=np.bool_)
        if self.moved is not None:
            found[self.whole.flows.job[self.moved]] = True
        if self.sprayed is not None:
            begins = np.searchsorted(self.whole.flows.job, np.arange(len(self.kept) + 1))
            for number, (_, job) in enumerate(self.kept):
                found[number] |= not sprays_over(
                    job.flows, self.sprayed.sets_of(slice(begins[number], begins[number + 1]))
                )
        return [bool(flag) for flag in found]


def solve(
    fabric: Fabric, requests: Sequence[JobRequest], *, health: Health, kept: Sequence[Placed] = ()
) -> Plan | Infeasible:
    """Plan new jobs beside those that keep their paths; the plan has all of them, kept ones first.

    The same input gives the same plan; work is limited in steps. The caller fills in `solve_ns`, `install_ns`,
    `flows_moved` and the rule counts of the certificate. Raises InputError for a rank that is no NIC and
    AlreadyExistsError where a (source, destination, port) is pinned twice.
    """
    drafted = draft(fabric, requests, health=health, kept=kept)
    return drafted if isinstance(drafted, Infeasible) else certified(drafted)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """What a session has chosen before a draft: `hops`, a row per flow to place; None where it has not.

    `moved` marks the flows of running jobs, job by job, whose paths it has changed: `hops` then begins with theirs.
    `running` are the joined paths of the running jobs, where the caller has them. `as_given` leaves `hops` as they are,
    incasts too. With `mirrored` ACKs return on the paths of their flows, without a search for more even ones.
    """

    hops: Ints | None = None
    moved: Flags | None = None
    running: Paths | None = None
    as_given: bool = False
    mirrored: bool = False


def draft(
    fabric: Fabric, requests: Sequence[JobRequest], *, health: Health, kept: Sequence[Placed] = (),
    chosen: Chosen | None = None, replan_dead: bool = False, left: Topology | None = None, router: Router | None = None,
) -> Draft | Infeasible:  # fmt: skip
    """Find paths, ports and rates; the time of this step is the certificate's `solve_ns`.

    With `replan_dead`, flows of running jobs with a failed link on a path are planned again with the new flows. `left`
    is the topology with the capacity that traffic of no job leaves on links into NICs, where there is such traffic.
    `router` is one for `health`, where the caller has it; its topology may have degraded cables.
    """
    chosen = chosen or Chosen()
    moved = chosen.moved
    topology = router.topology if router is not None else topology_of(fabric)
    router = router or Router(topology=topology, live=Live.of(topology, health))
    live = router.live
    jobs = [request for request, _ in kept] + list(requests)
    new = expand(topology, requests, first_job=len(kept), live=live)
    old = chosen.running or placed_paths(topology, kept)
    job_ids = [job.job_id for job in jobs]
    everything, stay = joined_flows((old.flows, new)), None
    refuse_taken_tuples(topology, job_ids, everything)
    if replan_dead or moved is not None:
        keeps = staying(topology, live, old) if moved is None else ~moved
        stay = np.append(keeps, np.zeros(len(new), dtype=np.bool_))
        old, new = old.rows(keeps), everything.rows(~stay)
    if (why := dead_nic(topology, live, job_ids, new)) is not None:
        return Infeasible(why=why)
    streams = with_guards(old.streams(topology), topology, kept)
    paths = _paths(router, jobs, (old, streams), new, chosen, may_spray=may_spray(topology, requests), first=len(kept))
    if isinstance(paths, Infeasible):
        return paths
    hops = paths[0]
    found = _with_ports(fabric, topology, streams, new, paths)
    whole = joined_paths([old, found], topology) if stay is None else merged_paths(everything, stay, old, found)
    pinning = (new, hops) if stay is None else (whole.flows, whole.hops)
    spread = sprayed(live, jobs, whole.flows, whole.hops)
    loads = link_loads(topology, whole.flows, whole.hops) if spread is None else spread.loads()
    shares = planned_rates(left or topology, whole.flows, whole.hops, loads, crossings=spread)
    may_turn = jobs if spread is None else without_turns(jobs, spread)
    rates, turns = admitted(topology, may_turn, whole.flows, whole.hops, shares)
    return Draft(
        router=router,
        jobs=jobs,
        kept=kept,
        old=old,
        whole=whole,
        loads=loads,
        rates=rates,
        turns=turns,
        guards=_guards(topology, whole, *pinning) if pinning[0].by_addresses.any() else {},
        left=left or topology,
        moved=None if stay is None else ~stay & (whole.flows.job < len(kept)),
        conserving=conserving_flows(left or topology, whole.flows, rates, turns),
        sprayed=spread,
    )


def _paths(
    router: Router, jobs: Sequence[JobRequest], kept: tuple[Paths, Streams], new: Flows, chosen: Chosen, *,
    may_spray: bool, first: int,
) -> tuple[Ints, Ints] | Infeasible:  # fmt: skip
    """Return the links of new flows and of their ACKs; flows of the jobs from number `first` on are fresh."""
    old, streams = kept
    routed = hops = chosen.hops
    if hops is None or (chosen.moved is not None and not chosen.as_given):
        routed, hops = paths_beside(router, jobs, old, streams, new, hops)
    if (why := no_path(router.topology, router.live, [job.job_id for job in jobs], new, hops)) is not None:
        return Infeasible(why=why)
    if may_spray and not chosen.as_given:
        hops = seated(router.live, jobs, new, hops, new.job >= first)
    hops, as_routed = with_gone(router, new, hops), hops is routed
    if chosen.mirrored:
        return hops, router.topology.mirrored(hops)
    return hops, reverse_paths(router, jobs, old, streams, new, hops, as_routed=as_routed)


def _with_ports(
    fabric: Fabric, topology: Topology, running: Streams, new: Flows, paths: tuple[Ints, Ints]
) -> Paths:  # fmt: skip
    """Encode each forward and reverse path in its UDP source port; a port that the job has fixed stays.

    The flows of one pair of NICs take increasing values of the spare bits, from 1: a flow label of 0 means "automatic"
    to a NIC, so port 49152 is avoided.
    """
    table = port_table_of(fabric, topology)
    (hops, reverse_hops), src, dst = paths, new.src_nic, new.dst_nic
    fixed = np.flatnonzero(new.fixed_port > 0)
    pins = tuple_keys(topology, src[fixed], dst[fixed], new.fixed_port[fixed])
    taken = np.concatenate((running.key[running.fixed], pins))
    pairs = src * topology.nics
    pairs += dst
    entropy = repeats(pairs)
    entropy += 1
    ports = _free_ports(topology, table, taken, (src, dst, hops), entropy, new.fixed_port == 0)
    return Paths(
        flows=new,
        hops=hops,
        ports=np.where(new.fixed_port > 0, new.fixed_port, ports) if len(fixed) else ports,
        reverse_hops=reverse_hops,
        reverse_ports=_free_ports(topology, table, taken, (dst, src, reverse_hops), entropy, new.fixed_port >= 0),
    )


def _free_ports(
    topology: Topology, table: PortTable, taken: Ints, streams: tuple[Ints, Ints, Ints], entropy: Ints, wanted: Flags
) -> Ints:
    """Return the ports of streams (source, target, hops); none of the `wanted` ones is a pinned port of its pair."""
    source, target, hops = streams
    ports = ports_of(topology, table, hops, target, entropy)
    if not len(taken):
        return ports
    entropy, taken = entropy.copy(), np.sort(taken)
    clash = np.flatnonzero(wanted)
    for _ in range(1 << table.entropy_bits):
        keys = tuple_keys(topology, source[clash], target[clash], ports[clash])
        clash = clash[taken[np.minimum(np.searchsorted(taken, keys), len(taken) - 1)] == keys]
        if not len(clash):
            break
        entropy[clash] += 1
        ports[clash] = ports_of(topology, table, hops[clash], target[clash], entropy[clash])
    return ports


def _guards(topology: Topology, whole: Paths, new: Flows, hops: Ints) -> dict[int, tuple[Stream, ...]]:
    """Return, per new job, the streams that its pins must not move."""
    streams = whole.streams(topology)
    return {
        job: tuple(_stream(topology, streams, row) for row in rows)
        for job, rows in streams_to_guard(topology, streams, new, hops).items()
    }


def _stream(topology: Topology, streams: Streams, row: int) -> Stream:
    """Return one row of the streams with names instead of numbers."""
    source, target = int(streams.source[row]), int(streams.target[row])
    return Stream(
        src_nic=topology.nic_ids[source],
        dst_nic=topology.nic_ids[target],
        udp_source_port=int(streams.port[row]),
        links=path_links(topology, source, streams.hops[row], target),
    )


def certified(drafted: Draft, *, has_happened: bool = False, hashed: HashedLoads | None = None) -> Plan | Infeasible:
    """Certify the whole plan and return it job by job; Infeasible where a job's `require_utilisation` is exceeded.

    A plan for what `has_happened`, such as a failure, is not refused. `hashed` are the loads under ECMP of an earlier
    plan, which follow this one.
    """
    topology, whole, jobs, kept = drafted.router.topology, drafted.whole, drafted.jobs, drafted.kept
    used = utilisation(topology, drafted.loads)
    paths = (whole.hops, whole.reverse_hops)
    rates = drafted.rates
    if drafted.left is not topology:  # figures do not count traffic of no job
        rates = planned_rates(topology, whole.flows, whole.hops, drafted.loads, crossings=drafted.sprayed)
    shares = fair_shares(topology, whole.flows, whole.hops, drafted.loads, rates, drafted.sprayed)
    if hashed is None:
        names = [name_of(job.job_id) for job in jobs]
        figures = ecmp_figures(topology, drafted.router.segments, whole.flows, names)
    else:
        figures = hashed.figures(drafted.router.segments, jobs, whole.flows)
    split = None if drafted.sprayed is None else drafted.sprayed.split
    segments = None if split is None else drafted.router.segments
    certificate = certify(topology, drafted.router.live, whole.flows, paths, used, shares, figures, split, segments)
    if drafted.sprayed is not None:
        certificate = replace(certificate, spraying=spraying(drafted.sprayed, drafted.router.live, drafted.loads))
    begins = np.searchsorted(whole.flows.job, np.arange(len(jobs) + 1)).tolist()
    parts = [slice(begin, end) for begin, end in pairwise(begins)]
    fullest = None if drafted.sprayed is None else drafted.sprayed.fullest(used)
    own = own_utilisations(whole.flows.job, whole.hops, used, len(jobs), fullest)
    why = None if has_happened else _too_full(drafted, parts, own, used, certificate.lower_bound)
    if why is not None:
        return Infeasible(why=why)
    notes = incast_notes(drafted.left, jobs, whole, drafted.rates, drafted.turns)
    planned = []
    again = drafted.replaced()
    steady = _steady(drafted, again)
    for number, part in enumerate(parts):
        if steady[number]:
            flows = kept[number][1]
        else:
            stays = number < len(kept) and not again[number]
            flows = (_rated(kept[number][1], drafted, part) if stays else None) or _job_flows(
                topology, jobs[number], drafted, part, kept[number][1] if number < len(kept) else None
            )
        guards = drafted.guards.get(number, flows.guards)
        own_figures = (own[number], notes.get(number, ()), guards)
        if own_figures != (flows.own_max_link_utilisation, flows.notes, flows.guards):
            flows = replace(flows, own_max_link_utilisation=own_figures[0], notes=own_figures[1], guards=guards)
        planned.append(flows)
    return Plan(jobs=tuple(planned), certificate=certificate)


def _too_full(drafted: Draft, parts: Sequence[slice], own: Sequence[float], used: Floats, bound: float) -> str | None:
    """Return why a job exceeds its `require_utilisation`; None where none does.

    A running job that was within its limit must not exceed it; one that exceeded it before stays as it is.
    """
    topology, whole = drafted.router.topology, drafted.whole
    over = [n for n, job in enumerate(drafted.jobs) if 0 < job.require_utilisation < own[n]]
    if not over:
        return None
    was_sprayed = sprayed(drafted.router.live, drafted.jobs[: len(drafted.kept)], drafted.old.flows, drafted.old.hops)
    loads = link_loads(topology, drafted.old.flows, drafted.old.hops) if was_sprayed is None else was_sprayed.loads()
    before = utilisation(topology, loads)
    for number in over:
        wanted, hops = drafted.jobs[number].require_utilisation, whole.hops[parts[number]]
        if drafted.sprayed is not None:
            hops = drafted.sprayed.crossed(np.arange(parts[number].start, parts[number].stop))
        was = own_utilisation(topology, hops, before)[0] if number < len(drafted.kept) else 0.0
        if was <= wanted:
            full, link = own_utilisation(topology, hops, used)
            return too_full(drafted.jobs[number].job_id, wanted, full, link, bound)
    return None


def _steady(drafted: Draft, again: list[bool]) -> list[bool]:
    """Return for each job whether it runs, and has its paths, rates and turns; False where that takes more to find.

    `again` marks jobs with other paths.
    """
    tables = [job.flows for _, job in drafted.kept]
    steady: Flags = np.zeros(len(drafted.jobs), dtype=np.bool_)
    plain = [table for table in tables if isinstance(table, FlowTable) and table.turns is None]
    if plain and len(plain) == len(tables) and drafted.turns is None:
        rates = np.concatenate([table.rates for table in plain])
        job, conserving = drafted.whole.flows.job[: len(rates)], drafted.conserving
        differs = rates != drafted.rates[: len(rates)]
        if conserving is not None or any(table.conserving is not None for table in plain):
            none = np.zeros(len(drafted.rates), dtype=np.bool_)
            may = [none[: len(table)] if table.conserving is None else table.conserving for table in plain]
            differs |= np.concatenate(may) != (none if conserving is None else conserving)[: len(rates)]
        steady[: len(tables)] = True
        steady[job[differs]] = False
        steady[again] = False
    return [bool(flag) for flag in steady]


def _rated(placed: JobFlows, drafted: Draft, part: slice) -> JobFlows | None:
    """Return a running job's flows with its rates, the same object if unchanged; None if they are no `FlowTable`."""
    table = placed.flows
    if not isinstance(table, FlowTable):
        return None
    rates, turns = drafted.rates[part], drafted.turns.rows(part) if drafted.turns is not None else None
    conserving = part_of(drafted.conserving, part)
    if table.sends_at(rates, turns, conserving):
        return placed
    return replace(
        placed,
        flows=table.with_rates(rates.copy(), turns, conserving),
        predicted_completion_ns=_completion_ns(table.flows, rates, turns),
    )


def _job_flows(
    topology: Topology, request: JobRequest, drafted: Draft, part: slice, before: JobFlows | None
) -> JobFlows:  # fmt: skip
    """Return the flows of one job, the rows `part` of a draft; `before` has those that run already."""
    whole, rates = drafted.whole, drafted.rates[part]
    turns = drafted.turns.rows(part) if drafted.turns is not None else None
    # A view of a few rows would keep the arrays of all jobs in memory.
    chosen = part if 2 * (part.stop - part.start) > len(whole.flows) else np.arange(part.start, part.stop)
    known = before.flows if before is not None else None
    built = topology.built
    same = isinstance(known, FlowTable) and known.topology is built and known.request is request
    flows = known.flows if isinstance(known, FlowTable) and same else whole.flows.rows(chosen)
    paths = Paths(
        flows=flows, hops=whole.hops[chosen], ports=whole.ports[chosen], reverse_hops=whole.reverse_hops[chosen],
        reverse_ports=whole.reverse_ports[chosen],
    )  # fmt: skip
    own_rates = rates if isinstance(chosen, slice) else rates.copy()
    sets = None if drafted.sprayed is None else drafted.sprayed.sets_of(part)
    table = FlowTable(built, request, paths, own_rates, turns, part_of(drafted.conserving, part), sets)
    return JobFlows(
        job_id=request.job_id,
        flows=table,
        link_loads_bps=job_loads(built, flows, table.hops, sets),
        pinned=bool(flows.pinned.any()),
        predicted_completion_ns=_completion_ns(flows, rates, turns),
        reverse_links=reverse_only_links(topology, table.hops, table.reverse_hops),
    )


def _completion_ns(flows: Flows, rates: Ints, turns: Turns | None) -> int:
    return completion_ns(flows, rates, turns.slots if turns is not None else None)
