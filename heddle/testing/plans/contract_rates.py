"""Rates and shares of flows, from the contract's sentences, in fractions."""

from collections import defaultdict
from fractions import Fraction

from heddle.testing.plans.contract_loads import crossed, heaviest

ROUNDING = Fraction(1, 10**6)
HEADROOM = Fraction(95, 100)


def max_min(flows, capacity):
    """Return max-min fair rates: raise all rates together until a link is full, freeze its flows, repeat."""
    rates = {flow["flow_id"]: Fraction(0) for flow in flows}
    growing, left = {flow["flow_id"]: flow for flow in flows}, {k: Fraction(v) for k, v in capacity.items()}
    while growing:
        crowd = defaultdict(int)
        for flow in growing.values():
            for link, part in crossed(flow).items():
                crowd[link] += part
        step = min(left[link] / count for link, count in crowd.items())
        step = min(step, *(flow["demand_bps"] - rates[name] for name, flow in growing.items()))
        for name, flow in growing.items():
            rates[name] += step
            for link, part in crossed(flow).items():
                left[link] -= step * part
        growing = {
            name: flow
            for name, flow in growing.items()
            if rates[name] < flow["demand_bps"] and all(left[link] > 0 for link in crossed(flow))
        }
    return rates


def expected_rates(network, flows, headroom=HEADROOM):
    """Return each flow's rate: a max-min share where a link is over its limit, its demand elsewhere.

    The phase of a job competes with the heaviest phase of each other job. The limit of a NIC is `headroom` of its rate
    for several senders.
    """
    loads, limits = heaviest(flows, crossed), _limits(network, flows, headroom)
    over = {
        link
        for link, load in loads.items()
        if load > (limits[link] if limits[link] < network.capacity[link] else limits[link] * (1 + ROUNDING))
    }
    layers = defaultdict(list)
    for flow in flows:  # a flow on no link over its limit slows no flow, and none slows it
        if over.intersection(crossed(flow)):
            layers[flow["job"], flow["phase"]].append(flow)
    weight = {layer: sum(flow["demand_bps"] for flow in members) for layer, members in layers.items()}
    heavy = {
        job: max((key for key in layers if key[0] == job), key=lambda key: (weight[key], -key[1])) for job, _ in layers
    }
    rates = {flow["flow_id"]: Fraction(flow["demand_bps"]) for flow in flows}
    for layer, members in layers.items():
        others = [flow for job, key in heavy.items() if job != layer[0] for flow in layers[key]]
        found = max_min(members + others, _limits(network, members + others, headroom))
        rates.update((flow["flow_id"], found[flow["flow_id"]]) for flow in members)
    return rates


def _limits(network, flows, headroom):
    """Return what each link takes: of a NIC with several senders that ask it for more than `headroom`, only that."""
    limits = {link: Fraction(rate) for link, rate in network.capacity.items()}
    senders, asked = defaultdict(set), heaviest(flows, lambda flow: [flow["dst_nic"]])
    for flow in flows:
        senders[flow["dst_nic"]].add(flow["src_nic"])
    for nic, sources in senders.items():
        rate = network.nics[nic]["bps"]
        if len(sources) > 1 and asked[nic] > headroom * rate:
            limits[f"{network.nics[nic]['port']}>{nic}"] = headroom * rate
    return limits


def fair_shares(network, flows):
    """Return each flow's share of its demand at max-min rates, with the whole rate of NICs."""
    rates = expected_rates(network, flows, headroom=1)
    shares = {flow["flow_id"]: Fraction(1) for flow in flows}
    for flow in flows:
        rate, demand = rates[flow["flow_id"]], flow["demand_bps"]
        if rate + 1 < demand * (1 - ROUNDING):
            shares[flow["flow_id"]] = rate / demand
    return shares
