"""Derive a job's pin rules from its flows, and check rule budgets."""

from collections.abc import Mapping

from controller.brain.state import State
from controller.model.error import BudgetExceededError
from controller.model.job import JobRequest
from controller.model.plan import FlowPlan, JobFlows, Stream
from controller.model.rule import FlowRule, Pin
from controller.rules.pins import pin_rules


def pin_rules_of(
    state: State, request: JobRequest, flows: JobFlows, number: int, generation: int
) -> Mapping[str, tuple[FlowRule, ...]]:
    """Return a job's pin rules by switch; flows whose source port selects the path need none."""
    if not flows.pinned:
        return {}
    fixed = {
        (index, flow.src_rank, flow.dst_rank, flow.udp_source_port)
        for index, collective in enumerate(request.collectives)
        for flow in collective.flows
        if flow.udp_source_port
    }
    pins: dict[tuple[int, int, int | None], Pin] = {}
    for flow in flows.flows:
        if flow.pinned:
            named = (flow.collective, flow.src_rank, flow.dst_rank, flow.udp_source_port) in fixed
            pin = _pin(state, flow, flow.udp_source_port if named else None, number, generation)
            pins[pin.src_ip, pin.dst_ip, pin.udp_source_port] = pin
    for stream in flows.guards:
        pin = _pin(state, stream, stream.udp_source_port, number, generation)
        pins.setdefault((pin.src_ip, pin.dst_ip, pin.udp_source_port), pin)
    return pin_rules(state.fabric, pins.values())


def _pin(state: State, flow: FlowPlan | Stream, port: int | None, number: int, generation: int) -> Pin:
    """Return the pin of one UDP source port, or (None) of all RoCE between two NICs, which the plan sends one path."""
    nics = state.fabric.nic_by_id
    return Pin(
        src_ip=nics[flow.src_nic].ip,
        dst_ip=nics[flow.dst_nic].ip,
        udp_source_port=port,
        links=flow.links,
        job_number=number,
        generation=generation,
    )


def rule_counts(state: State, added: Mapping[str, int]) -> dict[str, int]:
    """Return the number of rules wanted on each switch, plus `added`."""
    counts = {switch: len(rules.rules) + added.get(switch, 0) for switch, rules in state.underlay.items()}
    for job in state.jobs.values():
        for switch, rules in job.pin_rules.items():
            counts[switch] += len(rules)
    return counts


def budget_passed(state: State, more: Mapping[str, tuple[FlowRule, ...]]) -> BudgetExceededError | None:
    """Return the error for the first switch that would exceed its rule budget; None where all fit."""
    counts = rule_counts(state, {switch: len(rules) for switch, rules in more.items()})
    for switch in state.fabric.switches:
        if switch.rule_budget is not None and counts[switch.id] > switch.rule_budget:
            return BudgetExceededError(
                f"switch {switch.id} would hold {counts[switch.id]} rules, its rule_budget is {switch.rule_budget}; "
                "let the job choose its source ports (steering SOURCE_PORT) or raise the budget"
            )
    return None
