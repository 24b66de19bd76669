"""Check a plan against an independent implementation of the contract: plain data in, a list of violations out.

`check(fabric, jobs, plan)` takes the fabric and jobs files as YAML reads them and the plan as `heddle plan --json`
prints it. Everything is worked out again from the contract's sentences, slowly and simply; nothing is imported from
what is checked.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

from heddle.testing.plans import contract_flows, contract_planes
from heddle.testing.plans.contract_loads import between_switches, bounds, crossed, heaviest
from heddle.testing.plans.contract_network import Network
from heddle.testing.plans.contract_rates import HEADROOM, ROUNDING, expected_rates, fair_shares
from heddle.testing.plans.contract_templates import template_paths

TOLERANCE = 1e-9
SIXTY_FOUR_BITS = ("rate_bps", "demand_bps", "slot_ns")
"""What protobuf's JSON mapping writes as text."""
MAX_AT_ONCE = 256


def from_json(plan: dict[str, Any]) -> dict[str, Any]:
    """Turn the texts of 64-bit fields back into numbers, in place."""
    for job in plan["jobs"]:
        for flow in job["flows"]:
            for values in (flow, flow.get("window") or {}):
                values.update({key: int(values[key]) for key in SIXTY_FOUR_BITS if key in values})
    return plan


# ---------------------------------------------------------------- demands of jobs


def rank_pairs(collective, count):
    """Return [(source rank, destination rank, rate, fixed port)], same-host pairs included."""
    kind = collective["kind"]
    if kind in contract_flows.LISTED:
        given = collective.get(contract_flows.LISTED[kind], [])
        return [(f["src_rank"], f["dst_rank"], f.get("rate_bps", 0), f.get("udp_source_port", 0)) for f in given]
    members = list(collective.get("members") or range(count))
    return [(a, b, 0, 0) for a, b in contract_flows.rank_pairs(kind, members, collective.get("root", 0))]


def expected_flows(network, jobs):
    """Return every queue pair that the jobs should have, by flow id."""
    flows = {}
    for job in jobs["jobs"]:
        ranks = job["ranks"] if isinstance(job["ranks"], list) else list(network.ports)
        logical = []
        for number, collective in enumerate(job["collectives"]):
            for a, b, rate, port in rank_pairs(collective, len(ranks)):
                if network.host(ranks[a]) == network.host(ranks[b]):
                    continue
                pairs = collective.get("qps_per_flow") or 1
                paths = collective.get("paths_per_flow", 0)
                logical.append((number, a, b, rate, port, (pairs, paths), collective.get("phase", 0)))
        out, into = defaultdict(int), defaultdict(int)
        for _, a, b, rate, _, _, phase in logical:
            if not rate:
                out[ranks[a], phase] += 1
                into[ranks[b], phase] += 1
        seen = defaultdict(int)
        for number, a, b, rate, port, (pairs, paths), phase in logical:
            source, target = ranks[a], ranks[b]
            demand = Fraction(rate) or min(
                Fraction(contract_planes.rate(network, source), out[source, phase]),
                Fraction(contract_planes.rate(network, target), into[target, phase]),
            )
            for from_port, to_port, part in contract_planes.split(network, source, target):
                for _ in range(pairs):
                    flow_id = f"{job['job_id']}/{number}/{a}-{b}/{seen[number, a, b]}"
                    seen[number, a, b] += 1
                    flows[flow_id] = {
                        "job": job["job_id"], "src": from_port, "dst": to_port, "phase": phase, "port": port,
                        "demand": demand * part / pairs, "pin": job.get("steering") == "PIN" or port > 0,
                        "rounding": 0 if part in (0, 1) else demand / pairs * Fraction(1, 10**6),
                        "gone": part == 0, "paths": paths or _paths_of_nic(network, job, from_port, port),
                    }  # fmt: skip
    return flows


def _paths_of_nic(network, job, source, port):
    """Return over how many paths a NIC sprays a flow of a job that leaves it to the NICs."""
    if port or job.get("steering") == "PIN" or job.get("incast", "").removeprefix("INCAST_") == "WINDOWS":
        return 1
    asked = network.nics[source]["paths"]
    return min(asked, template_paths(network)) if asked > 1 else 1


# ---------------------------------------------------------------- one path


def path_violations(
    network: Network, flow_id: str, links: Sequence[str], source: str, target: str
) -> list[str]:  # fmt: skip
    """Return why a list of links is not an admissible path."""
    unknown = [link for link in links if link not in network.ends]
    if unknown or len(links) < 2:
        return [f"{flow_id}: {unknown or links} is no path of this fabric"]
    found = [f"{flow_id}: {link} is out of use" for link in links if link in network.dead]
    places = [network.ends[links[0]][0]] + [network.ends[link][1] for link in links]
    if any(network.ends[a][1] != network.ends[b][0] for a, b in pairwise(links)):
        found.append(f"{flow_id}: the links {links} do not follow each other")
    if (places[0], places[-1]) != (source, target):
        found.append(f"{flow_id}: goes from {places[0]} to {places[-1]}, not from {source} to {target}")
    if len(set(places)) != len(places):
        found.append(f"{flow_id}: meets a switch twice: {places}")
    ways = [network.rises(link) for link in links[1:-1]]
    if ways != sorted(ways, reverse=True):
        found.append(f"{flow_id}: goes up again after going down: {links}")
    return found


# ---------------------------------------------------------------- rates


def _conserving_violations(network, flows):
    """Return the flows that may exceed their rate though a NIC is asked for too much, or may not though none is."""
    asked, senders = heaviest(flows, lambda flow: [flow["dst_nic"]]), defaultdict(set)
    for flow in flows:
        senders[flow["dst_nic"]].add(flow["src_nic"])
    full = {
        nic
        for nic, load in asked.items()
        if load > network.nics[nic]["bps"] * (HEADROOM if len(senders[nic]) > 1 else 1)
    }
    return [
        f"{flow['flow_id']}: work_conserving is {flow['work_conserving']}"
        for flow in flows
        if flow["work_conserving"]
        is not (
            int(flow["rate_bps"]) < flow["demand_bps"] * (1 - ROUNDING)
            and not _slots(flow)
            and flow["dst_nic"] not in full
        )
    ]


# ---------------------------------------------------------------- the whole


def dependency_cycle(network, flows):
    """Return a cycle of buffers waiting for each other along the paths and their local failover choices, if any."""
    graph = defaultdict(set)  # by each buffer, those that wait for it
    rising = defaultdict(list)
    for link in network.alive:
        if network.rises(link):
            rising[network.ends[link][0]].append(link)
    switch_links = set(network.switch_links)
    for switch, links in rising.items():  # one node stands for a switch's choice among its ways up
        for link in links:
            graph[link].add(("choice", switch))
    for flow in flows:
        sprayed = [path["links"] for path in flow.get("path_set", {"paths": ()})["paths"]]
        for links in (flow["links"], flow["reverse_links"], *sprayed):
            for a, b in pairwise(links):
                graph[b].add(a)
                if b in switch_links and network.rises(b):
                    graph["choice", network.ends[b][0]].add(a)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def check(
    fabric: dict[str, Any],
    jobs: dict[str, Any],
    plan: dict[str, Any],
    kept: Collection[str] = frozenset(),
    stranded: Collection[str] = frozenset(),
) -> list[str]:
    """Return the violations of the contract in a plan; an empty list for a valid one.

    `kept` are the ids of flows that kept their paths while others of the plan lost theirs to failures; those in
    `stranded` have no live path, and keep the one that has failed, as do parts of flows in a plane that is gone.
    """
    network = Network(fabric)
    expected = expected_flows(network, jobs)
    flows = [{**flow, "job": job["job_id"]} for job in plan["jobs"] for flow in job["flows"]]
    found = []
    ids = [flow["flow_id"] for flow in flows]
    if sorted(ids) != sorted(expected):
        return [
            f"flows missing {sorted(set(expected) - set(ids))[:5]}, too many {sorted(set(ids) - set(expected))[:5]}"
        ]
    stranded = frozenset(stranded) | {name for name, flow in expected.items() if flow["gone"]}
    for flow in flows:
        wrong = _flow_violations(network, flow, expected[flow["flow_id"]])
        found += [why for why in wrong if flow["flow_id"] not in stranded or not why.endswith(" is out of use")]
    if found:
        return found
    found += _shared_paths(flows, expected) + _uneven_answers(network, flows, expected, kept)
    found += _unasked_windows(flows, jobs) + _share_violations(network, flows, plan)
    for job in plan["jobs"]:
        found += _certificate_violations(network, flows, job, stranded)
    rates = expected_rates(network, flows)
    found += [
        f"{flow['flow_id']}: rate {flow['rate_bps']}, expected {float(rates[flow['flow_id']])}"
        for flow in flows
        if not _slots(flow) and abs(int(flow["rate_bps"]) - rates[flow["flow_id"]]) > 2 + 1e-6 * rates[flow["flow_id"]]
    ]
    found += _conserving_violations(network, flows)
    if len({(flow["job"], flow["phase"]) for flow in flows}) == len({flow["job"] for flow in flows}):
        found += _window_violations(network, flows, rates)
    return found


def _flow_violations(network, flow, wanted):
    name = flow["flow_id"]
    found = path_violations(network, name, flow["links"], wanted["src"], wanted["dst"])
    found += path_violations(network, f"{name} reverse", flow["reverse_links"], wanted["dst"], wanted["src"])
    if (flow["src_nic"], flow["dst_nic"], flow["phase"]) != (wanted["src"], wanted["dst"], wanted["phase"]):
        found.append(f"{name}: wrong NICs or phase")
    demand = wanted["demand"] if not wanted["gone"] else 1
    if abs(flow["demand_bps"] - demand) > Fraction(1, 2) + wanted["rounding"]:
        found.append(f"{name}: demand {flow['demand_bps']}, expected {float(wanted['demand'])}")
    if flow["rate_bps"] > flow["demand_bps"] * max(_slots(flow), 1):
        found.append(f"{name}: sends more than it asks for")
    ports = (flow["udp_source_port"], flow["reverse_udp_source_port"])
    if not all(49152 <= port <= 65535 for port in ports) or (wanted["port"] and ports[0] != wanted["port"]):
        found.append(f"{name}: ports {ports}")
    if wanted["pin"] and not flow["pinned"]:
        found.append(f"{name}: is not pinned")
    return found + _set_violations(network, flow, wanted)


def _set_violations(network, flow, wanted):
    """Return what is wrong with the paths over which a flow is sprayed: every flow has a set of its own."""
    name, sprayed = flow["flow_id"], wanted["paths"] > 1 and len(flow["links"]) > 2
    if ("path_set" in flow) != sprayed:
        return [f"{name}: {'no' if sprayed else 'a'} path set"]
    if not sprayed:
        return []
    paths, order, entries = (flow["path_set"][key] for key in ("paths", "order", "entries"))
    found = []
    for path in paths:
        found += path_violations(network, f"{name} sprayed", path["links"], wanted["src"], wanted["dst"])
        if not (flow.get("sid") or 49152 <= path["udp_source_port"] <= 65535):
            found.append(f"{name}: port {path['udp_source_port']} of a path")
    if len({tuple(path["links"]) for path in paths}) != len(paths):
        found.append(f"{name}: a path twice")
    if [order.count(number) for number in range(len(paths))] != [path["weight"] for path in paths]:
        found.append(f"{name}: the weights are not the entries of the list")
    if len(order) != entries or not 0 < entries <= MAX_AT_ONCE or 0 in [path["weight"] for path in paths]:
        found.append(f"{name}: {entries} entries")
    if len(paths) > wanted["paths"]:
        found.append(f"{name}: {len(paths)} paths, more than {wanted['paths']}")
    return found


def _shared_paths(flows, expected):
    """Check that flows pinned by addresses share one path per pair."""
    paths = defaultdict(set)
    for flow in flows:
        wanted = expected[flow["flow_id"]]
        if wanted["pin"] and not wanted["port"]:
            paths[flow["src_nic"], flow["dst_nic"]].add(tuple(flow["links"]))
    return [f"{pair}: pinned to {len(found)} paths" for pair, found in paths.items() if len(found) > 1]


def _slots(flow):
    return int((flow.get("window") or {}).get("slots") or 0)


def _window_violations(network, flows, rates):
    """Windows where every job has one phase: a sender's queue pairs together, and no slot fuller than it may be.

    Turns are taken within a job: those of several jobs may fall together in any way, so their fullest slots add up.
    """
    found, turns = [], defaultdict(set)
    senders, asked, always = defaultdict(set), defaultdict(int), defaultdict(int)
    slots = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for flow in flows:
        window, rate = flow.get("window") or {}, int(flow["rate_bps"])
        key = (flow["job"], flow["dst_nic"])
        senders[flow["dst_nic"]].add(flow["src_nic"])
        asked[flow["dst_nic"]] += flow["demand_bps"]
        turns[(*key, flow["src_nic"])].add((window.get("slot", 0), _slots(flow), int(window.get("slot_ns", 0))))
        if not _slots(flow):
            for link, part in crossed(flow).items():
                always[link] += rate * part
            continue
        if not 0 <= window["slot"] < window["slots"] or int(window["slot_ns"]) < 100_000:
            found.append(f"{flow['flow_id']}: window {window}")
        if rate > (rates[flow["flow_id"]] + 2) * _slots(flow):
            found.append(f"{flow['flow_id']}: more on average than its share")
        for link in flow["links"]:
            slots[link][key][window["slot"]] += rate
    found += [f"{key}: its queue pairs have several windows" for key, windows in turns.items() if len(windows) > 1]
    for link, jobs in slots.items():
        most = Fraction(network.capacity[link])
        nic = network.ends[link][1]
        if nic in network.nics and len(senders[nic]) > 1 and asked[nic] > Fraction(95, 100) * most:
            most *= Fraction(95, 100)
        fullest = always[link] + sum(max(turn.values()) for turn in jobs.values())
        if fullest > most + 1:
            found.append(f"{link}: {fullest} in a slot, {float(most)} is the most")
    return found


def _unasked_windows(flows, jobs):
    """Check that only senders take turns whose job asks for it, or leaves it open where there are very many."""
    senders = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
    for flow in flows:
        senders[flow["dst_nic"]][flow["job"]][flow["phase"]].add(flow["src_nic"])
    crowd = {nic: sum(max(map(len, phases.values())) for phases in at_nic.values()) for nic, at_nic in senders.items()}
    incast = {job["job_id"]: job.get("incast", "").removeprefix("INCAST_") or "UNSPECIFIED" for job in jobs["jobs"]}
    return [
        f"{flow['flow_id']}: takes turns unasked: {incast[flow['job']]}, {crowd[flow['dst_nic']]} senders"
        for flow in flows
        if _slots(flow) > 1
        and incast[flow["job"]] != "WINDOWS"
        and (incast[flow["job"]] == "RATES" or crowd[flow["dst_nic"]] <= MAX_AT_ONCE)
    ]


def _share_violations(network, flows, plan):
    """Check what the certificate says about slowed flows and overloaded links."""
    shares = list(fair_shares(network, flows).values())
    loads = heaviest(flows, between_switches)
    figures = {
        "flows_slowed": sum(share < 1 for share in shares),
        "mean_share": sum(shares) / len(shares) if shares else 1,
        "worst_share": min(shares, default=1),
        "links_over_capacity": sum(load > network.capacity[link] * (1 + ROUNDING) for link, load in loads.items()),
    }
    return [
        f"{job['job_id']}: {key} is {job['certificate'][key]}, the flows make it {float(value)}"
        for job in plan["jobs"]
        for key, value in figures.items()
        if abs(job["certificate"][key] - value) > 2 * ROUNDING
    ]


def _uneven_answers(network, flows, expected, kept):
    """Check that no link has more reverse streams, for its rate, than with all of them on mirrored paths.

    Kept streams stay where they are, and count beside the others, also beside those of their own job.
    """
    if any(flow["pin"] and not flow["port"] for flow in expected.values()):
        return []  # a pin of a whole pair takes the answers of the opposite pair along
    back = {link: ">".join(reversed(link.split(">"))) for link in network.switch_links}
    streams = [{**flow, "demand_bps": 1, "job": (flow["job"], flow["flow_id"] in kept)} for flow in flows]
    planned = heaviest(streams, lambda flow: flow["reverse_links"][1:-1])
    mirrored = heaviest(
        streams,
        lambda flow: flow["reverse_links"][1:-1] if flow["job"][1] else [back[link] for link in flow["links"][1:-1]],
    )
    worst, limit = (
        max((Fraction(count, network.capacity[link]) for link, count in counts.items()), default=Fraction(0))
        for counts in (planned, mirrored)
    )
    return [f"{float(worst / limit)} times the answers on one link of a mirror"] if worst > limit else []


def _certificate_violations(network, flows, job, stranded):
    certificate, found = job["certificate"], []
    loads = heaviest(flows, crossed)
    used = {link: Fraction(load) / network.capacity[link] for link, load in loads.items()}
    switch_links = set(network.switch_links)
    inner = {link: value for link, value in used.items() if link in switch_links}
    worst = max(inner.values(), default=Fraction(0))
    mine = [inner[link] for flow in job["flows"] for link in crossed(flow) if link in inner]
    nics = max((value for link, value in used.items() if link not in inner), default=Fraction(0))
    for key, value in (
        ("max_link_utilisation", worst),
        ("own_max_link_utilisation", max(mine, default=Fraction(0))),
        ("max_nic_utilisation", nics),
    ):
        if abs(certificate[key] - value) > TOLERANCE:
            found.append(f"{key} is {certificate[key]}, the flows make it {float(value)}")
    if worst and inner.get(certificate["bottleneck_link"]) != worst:
        found.append(f"bottleneck_link {certificate['bottleneck_link']} is not the fullest")
    if certificate["lower_bound"] > worst * (1 + Fraction(TOLERANCE)):
        found.append(f"lower_bound {certificate['lower_bound']} is above what was reached, {float(worst)}")
    bound = bounds(network, [flow for flow in flows if flow["flow_id"] not in stranded])
    if certificate["lower_bound"] < bound * (1 - Fraction(TOLERANCE)):
        found.append(f"lower_bound {certificate['lower_bound']} is below {float(bound)}")
    if certificate["deadlock_free"] != (dependency_cycle(network, flows) is None):
        found.append("deadlock_free is wrong")
    return found
