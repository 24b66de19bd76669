"""Derive a job's pin rules from its flows, and check rule budgets."""

from collections.abc import Iterable, Mapping

from heddle.controller.brain.state import State
from heddle.controller.model.error import BudgetExceededError
from heddle.controller.model.fabric import Cable, Fabric, Nic
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import FlowPlan, JobFlows, SeveredPins, Stream
from heddle.controller.model.rule import FlowRule, Pin
from heddle.controller.rules.pins import pin_rules


def pin_rules_of(
    fabric: Fabric, request: JobRequest, flows: JobFlows, number: int, dead: frozenset[str] = frozenset()
) -> Mapping[str, tuple[FlowRule, ...]]:
    """Return a job's pin rules by switch; flows whose source port selects the path need none.

    Flows on `dead` links get none either: a pin comes before the exceptions that would forward them.
    """
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
        if flow.pinned and dead.isdisjoint(flow.links):
            named = (flow.collective, flow.src_rank, flow.dst_rank, flow.udp_source_port) in fixed
            pin = _pin(fabric, flow, flow.udp_source_port if named else None, number)
            pins[pin.src_ip, pin.dst_ip, pin.udp_source_port] = pin
    for stream in flows.guards:
        if dead.isdisjoint(stream.links):
            pin = _pin(fabric, stream, stream.udp_source_port, number)
            pins.setdefault((pin.src_ip, pin.dst_ip, pin.udp_source_port), pin)
    return pin_rules(fabric, pins.values())


def severed_pins(
    fabric: Fabric, pinned: Iterable[tuple[JobRequest, JobFlows, int, bool]], health: Health
) -> dict[str, SeveredPins]:
    """Return the pins without those on failed links, for jobs that have such, or had them (the last of each entry)."""
    dead = dead_links(fabric, health)
    found = {}
    for request, flows, number, was_severed in pinned:
        severed = not dead.isdisjoint(flows.link_loads_bps)
        if severed or was_severed:
            pins = pin_rules_of(fabric, request, flows, number, dead)
            found[request.job_id] = SeveredPins(flows=flows, pins=pins, severed=severed)
    return found


def dead_links(fabric: Fabric, health: Health) -> frozenset[str]:
    """Return the ids of the directed links that are out of use."""
    names = set(health.down_cables)
    names |= {cable.id for cable in fabric.cables if {cable.lower.switch, cable.upper.switch} & health.down_switches}
    ends: list[Cable | Nic] = [fabric.cable_by_link[name] for name in names]
    ends += [fabric.nic_by_id[nic] for nic in health.down_nics]
    return frozenset(link for end in ends for link in (end.up_link, end.down_link))


def _pin(fabric: Fabric, flow: FlowPlan | Stream, port: int | None, number: int) -> Pin:
    """Return the pin of one UDP source port, or (None) of all RoCE between two NICs, which the plan sends one path."""
    nics = fabric.nic_by_id
    return Pin(
        src_ip=nics[flow.src_nic].ip,
        dst_ip=nics[flow.dst_nic].ip,
        udp_source_port=port,
        links=flow.links,
        job_number=number,
        generation=1,
    )


def rule_counts(state: State, pins: Mapping[str, Mapping[str, tuple[FlowRule, ...]]]) -> dict[str, int]:
    """Return the number of rules wanted on each switch, with these pins by job and switch instead of the jobs' own."""
    counts = {switch: len(rules.rules) for switch, rules in state.underlay.items()}
    own = {job_id: job.pin_rules for job_id, job in state.jobs.items() if job.pin_rules}
    for rules_of in (own | dict(pins)).values():
        for switch, rules in rules_of.items():
            counts[switch] += len(rules)
    return counts


def budget_passed(state: State, pins: Mapping[str, Mapping[str, tuple[FlowRule, ...]]]) -> BudgetExceededError | None:
    """Return the error for the first switch that would exceed its rule budget; None where all fit."""
    counts = rule_counts(state, pins)
    for switch in state.fabric.switches:
        if switch.rule_budget is not None and counts[switch.id] > switch.rule_budget:
            return BudgetExceededError(
                f"switch {switch.id} would hold {counts[switch.id]} rules, its rule_budget is {switch.rule_budget}; "
                "let the job choose its source ports (steering SOURCE_PORT) or raise the budget"
            )
    return None
