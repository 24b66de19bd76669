"""Conditions that several scenes share. Pure."""

from collections.abc import Mapping

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.results.scenes import FULL, Check, recovered_ns
from heddle.mininet_topos.demo.results.verdict import check_legs, legs_of
from heddle.mininet_topos.demo.scenes.script import PAYLOAD_PART
from heddle.mininet_topos.measure.flow_run import FiveTuple, FlowResult
from heddle.mininet_topos.traffic.cast import paced
from heddle.mininet_topos.traffic.stage import Played


def planned_goodput_bps(played: Played, flow_ids: frozenset[str]) -> int:
    """Return the goodput that the rates of the last plan allow some flows; flows without a path have none."""
    plans = played.plans
    return int(sum(paced(plans[one]) for one in flow_ids if one in plans and plans[one].links) * PAYLOAD_PART)


def at_rate(
    what: str, played: Played, flow_ids: frozenset[str], rate_bps: float, since_s: float, limit_s: float
) -> Check:
    """Return whether flows are at a rate, and stay there for a while, within `limit_s` of a moment of the run."""
    took_ns = recovered_ns(played.goodput_of(flow_ids), int(since_s * 1e9), rate_bps)
    when = "never again" if took_ns is None else f"after {took_ns / 1e9:.2f} s"
    text = f"{what}: {FULL:.0%} of {rate_bps / 1e6:.1f} Mbit/s {when} (limit {limit_s:g} s)"
    return Check(text=text, holds=took_ns is not None and took_ns <= limit_s * 1e9)


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


def moved(played: Played, flow_ids: frozenset[str], why: str) -> frozenset[str]:
    """Return those of some flows that have moved for a reason that contains `why`."""
    return frozenset(move.flow_id for move in played.result.moves if why in move.reason) & flow_ids
