"""Map the rates that hosts report of their queue pairs (`ReportFlows`) to the flows of jobs."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from heddle.controller.model.observed import Stream
from heddle.controller.model.plan import FlowPlan
from heddle.controller.planner.ground.flow_table import FlowTable

Rates = Mapping[Stream, float | None]


class MeasuredRates(NamedTuple):
    """The flows of a job that are measured, the sum of their rates, and of those that its plan gives them."""

    flows: int
    measured_bps: float
    planned_bps: float


def stream_of(flow: FlowPlan) -> Stream:
    """Return the stream of a flow plan."""
    return Stream(flow.src_nic, flow.dst_nic, flow.udp_source_port)


def measured_of(rates: Rates) -> dict[Stream, float]:
    """Return the streams whose rates are measured."""
    return {stream: rate for stream, rate in rates.items() if rate is not None}


def own_rates(flows: Iterable[FlowPlan], rates: Rates) -> dict[Stream, float]:
    """Return the measured rates of a job's flows; without those of streams that several flows share."""
    measured = measured_of(rates)
    if not measured:
        return {}
    streams = Counter(stream for stream, _ in _columns(flows))
    return {stream: measured[stream] for stream, count in streams.items() if count == 1 and stream in measured}


def measured_rates(flows: Sequence[FlowPlan], measured: Mapping[Stream, float]) -> MeasuredRates:
    """Return the sums over the flows of a job whose rates are measured; flows of a shared stream count together."""
    found = [(stream, planned_bps) for stream, planned_bps in _columns(flows) if stream in measured]
    return MeasuredRates(
        flows=len(found),
        measured_bps=sum(measured[stream] for stream in dict.fromkeys(stream for stream, _ in found)),
        planned_bps=sum(planned_bps for _, planned_bps in found),
    )


def flows_of_streams(flows: Sequence[FlowPlan], streams: Container[Stream]) -> Iterator[FlowPlan]:
    """Yield the flow plans of these streams; of a table without turns no other is built."""
    for number, (stream, _) in enumerate(_columns(flows)):
        if stream in streams:
            yield flows[number]


def _columns(flows: Iterable[FlowPlan]) -> Iterator[tuple[Stream, float]]:
    """Yield the stream and the planned mean rate of each flow; of a table without turns no flow plan is built."""
    if isinstance(flows, FlowTable) and flows.turns is None:
        nic_ids, ends = flows.topology.nic_ids, flows.flows
        columns = (ends.src_nic.tolist(), ends.dst_nic.tolist(), flows.ports.tolist(), flows.rates.tolist())
        for src, dst, port, rate_bps in zip(*columns, strict=True):
            yield Stream(nic_ids[src], nic_ids[dst], port), rate_bps
        return
    for flow in flows:
        yield stream_of(flow), flow.rate_bps / max(1, flow.window.slots)
