"""Write plans as JSON in protobuf's JSON mapping, piece by piece: a plan of 131,000 flows is 90 MB of text.

The text equals that of `MessageToDict` and `json.dump` for the same messages, with proto field names and defaults, in a
tenth of the time and without the whole text in memory.
"""

import json
from collections.abc import Iterator, Sequence

from google.protobuf.json_format import MessageToDict

from controller.api.translate import flow_to, plan_to
from controller.model.plan import DATA_DSCP, DATA_PRIORITY, FlowPlan, JobPlan
from controller.planner.flow_table import FlowTable

FLOWS_PER_PIECE = 2_048


def job_pieces(plan: JobPlan) -> Iterator[str]:
    """Yield the text of one job's plan, all flows included."""
    head = MessageToDict(
        plan_to(plan, flows=(), room=None), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    del head["flows"]
    yield json.dumps(head)[:-1] + ', "flows": ['
    flows = plan.flows.flows
    texts = _of_table(flows) if isinstance(flows, FlowTable) and flows.turns is None else _of_any(flows)
    first = True
    for piece in texts:
        yield piece if first else ", " + piece
        first = False
    yield "]}"


def _of_any(flows: Sequence[FlowPlan]) -> Iterator[str]:
    for flow in flows:
        found = MessageToDict(
            flow_to(flow), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        yield json.dumps(found)


def _of_table(table: FlowTable) -> Iterator[str]:
    """Yield the JSON of a flow table from its columns, many flows at a time."""
    topology = table.topology
    nics, links = [json.dumps(nic) for nic in topology.nic_ids], [json.dumps(link) for link in topology.link_ids]
    job = json.dumps(table.request.job_id)[:-1]
    into, out_of = topology.first_nic_link, topology.first_nic_link + topology.nics
    flows = table.flows
    columns = (
        flows.collective, flows.src_rank, flows.dst_rank, flows.queue_pair, flows.src_nic, flows.dst_nic, table.hops,
        table.ports, table.rates, table.reverse_hops, table.reverse_ports, flows.demand_bps, flows.phase, flows.pinned,
    )  # fmt: skip
    fixed = f'"dscp": {DATA_DSCP}, "priority_group": {DATA_PRIORITY}'
    for begin in range(0, len(table), FLOWS_PER_PIECE):
        part = slice(begin, begin + FLOWS_PER_PIECE)
        pieces = []
        for (
            collective, src_rank, dst_rank, queue_pair, source, target, hops, port, rate, back, back_port, demand,
            phase, pinned,
        ) in zip(*(column[part].tolist() for column in columns), strict=True):  # fmt: skip
            there = ", ".join([links[into + source], *[links[hop] for hop in hops if hop >= 0], links[out_of + target]])
            again = ", ".join([links[into + target], *[links[hop] for hop in back if hop >= 0], links[out_of + source]])
            pieces.append(
                f'{{"flow_id": {job}/{collective}/{src_rank}-{dst_rank}/{queue_pair}", "src_nic": {nics[source]}, '
                f'"dst_nic": {nics[target]}, "links": [{there}], "udp_source_port": {port}, "rate_bps": "{rate}", '
                f'{fixed}, "reverse_links": [{again}], "reverse_udp_source_port": {back_port}, '
                f'"demand_bps": "{demand}", "phase": {phase}, "src_rank": {src_rank}, "dst_rank": {dst_rank}, '
                f'"collective": {collective}, "queue_pair": {queue_pair}, "pinned": {"true" if pinned else "false"}}}'
            )
        yield ", ".join(pieces)
