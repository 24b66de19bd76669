"""Conditions that several scenes share. Pure."""

from collections.abc import Mapping, Sequence

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.results.judgement import MIN_CARRIED, Check
from heddle.mininet_topos.demo.results.scenes import FULL, PERIOD_NS, WARM_UP_PERIODS, recovered_ns
from heddle.mininet_topos.demo.results.verdict import check_legs, legs_of
from heddle.mininet_topos.demo.scenes.script import ACT_S, PAYLOAD_PART, RECOVERY_S
from heddle.mininet_topos.measure.flow_run import FiveTuple, FlowResult
from heddle.mininet_topos.traffic.cast import Decision, paced
from heddle.mininet_topos.traffic.stage import Played
from heddle.v1 import heddle_pb2 as pb

WELL_CARRIED = 0.985
"""From this part of the planned rates on nothing is said of what the machine carried."""


def planned_goodput_bps(played: Played, flow_ids: frozenset[str]) -> int:
    """Return the goodput that the rates of the last plan allow some flows; flows without a path have none."""
    plans = played.plans
    return int(sum(paced(plans[one]) for one in flow_ids if one in plans and plans[one].links) * PAYLOAD_PART)


def at_rate(what: str, played: Played, flow_ids: frozenset[str], rate_bps: float) -> Check:
    """Return whether flows are at a rate soon after the act, and stay there for a while.

    The rate is relative to what the machine carried before the act: see `carried_part`.
    """
    part = carried_part(played)
    took_ns = recovered_ns(played.goodput_of(flow_ids), int(ACT_S * 1e9), rate_bps * max(MIN_CARRIED, part))
    when = "never again" if took_ns is None else f"after {took_ns / 1e9:.2f} s"
    carried = "" if part > WELL_CARRIED else f", of which this machine carried {part:.0%} before,"
    text = f"{what}: {FULL:.0%} of {rate_bps / 1e6:.1f} Mbit/s{carried} {when} (limit {RECOVERY_S:g} s)"
    return Check(text=text, holds=took_ns is not None and took_ns <= RECOVERY_S * 1e9)


def carried_part(played: Played) -> float:
    """Return the part of the planned rates that the machine carried before the act, at most 1."""
    first = {flow.flow_id: paced(flow) * PAYLOAD_PART for plan in played.cast.followed for flow in plan.flows}
    started = [one.flow_id for one in played.cast.requests if one.start_offset_ns < ACT_S * 1e9 / 2]
    planned_bps = sum(first.get(flow_id, 0.0) for flow_id in started)
    before = played.goodput_of(frozenset(started) & first.keys())[WARM_UP_PERIODS : int(ACT_S * 1e9) // PERIOD_NS]
    if not before or not planned_bps:
        return 1.0
    return min(1.0, sum(before) / len(before) / planned_bps)


def all_led(played: Played, flow_ids: frozenset[str]) -> Check:
    """Return whether the switches' rules lead all of some flows that have a path over the links of their last plan."""
    led = [played.led[flow_id] for flow_id in flow_ids if flow_id in played.led]
    text = f"the switches' rules lead {sum(led)}/{len(led)} planned flows over their links"
    return Check(text=text, holds=bool(led) and all(led), decision=True)


def fullest_link(fabric: Fabric, played: Played) -> float:
    """Return the load of the fullest link under the last plans, if every flow sends as fast as its NIC can.

    This is computed from the paths alone, as a check of what the certificate claims.
    """
    line_bps = {nic.id: nic.capacity_bps for nic in fabric.nics}
    capacity_bps = {link: cable.capacity_bps for cable in fabric.cables for link in (cable.up_link, cable.down_link)}
    load_bps: dict[str, int] = {}
    for flow in played.plans.values():
        for link in flow.links:
            load_bps[link] = load_bps.get(link, 0) + line_bps[flow.src_nic]
    return max((load_bps.get(link, 0) / capacity for link, capacity in capacity_bps.items()), default=0.0)


def on_exact_links(fabric: Fabric, played: Played) -> Check:
    """Return whether the packets of all planned flows were counted on exactly the links of each port they had."""
    flows = [flow for flow in played.result.flows if flow.request.flow_id in played.plans]
    exact = sum(not link_faults(fabric, played, flow) for flow in flows)
    return Check(text=f"{exact}/{len(flows)} planned flows counted on exactly their links", holds=exact == len(flows))


def link_faults(fabric: Fabric, played: Played, flow: FlowResult) -> tuple[str, ...]:
    """Return a line for each wrong packet count of a flow."""
    source, destination = (fabric.nic_by_id[nic].ip for nic in (flow.request.src_nic, flow.request.dst_nic))

    def packets_on(port: int) -> Mapping[str, int]:
        return played.result.capture.links_of(FiveTuple(source, destination, port))

    return check_legs(
        legs_of(flow, played.paths_of(flow.request.flow_id), packets_on), flow.tx_packets, flow.rx_packets
    )


def replanned(
    followed: Sequence[pb.JobPlan], decisions: Sequence[Decision], why: str = "", flow_ids: frozenset[str] | None = None
) -> frozenset[str]:
    """Return the flows, of some or of all, that a decision has given other links for a reason that contains `why`."""
    found, links = set(), {flow.flow_id: tuple(flow.links) for plan in followed for flow in plan.flows}
    for decision in decisions:
        for flow_id, flow in decision.flows.items():
            if why in decision.text and tuple(flow.links) != links.get(flow_id):
                found.add(flow_id)
            links[flow_id] = tuple(flow.links)
    return frozenset(found) if flow_ids is None else frozenset(found) & flow_ids


def resent_packets(played: Played) -> int:
    """Return the packets that moves have sent again: a planned move drains first, and has none."""
    return sum(move.resent_packets for move in played.result.moves)
