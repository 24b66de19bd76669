"""Name the links at which packets of planned flows are refused, by the ICMPv6 errors that hosts report of them.

An error quotes the destination address as it was there: what is left of it says which link the packet did not take.
This is a hint and changes no plan: switches may send no errors, limit their rate, or send them for another reason.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from heddle.controller.brain.state import State
from heddle.controller.model.effect import Note
from heddle.controller.model.observed import PathErrors, Reports, Stream
from heddle.controller.model.plan import FlowPlan
from heddle.controller.model.srv6 import sids_of
from heddle.controller.views.flow_rates import flows_of_streams, stream_of


class Refused(NamedTuple):
    """A flow whose packets are refused before a link of its present path, and how many errors say so."""

    link: str
    flow_id: str
    errors: int
    new: int


def refused_flows(state: State, reports: Reports, host: str) -> list[Refused]:
    """Return the flows of a host whose packets are refused, by link; none where packets name no paths."""
    known = reports.path_errors(state.fabric) if sids_of(state.fabric) is not None else {}
    nics = state.fabric.nic_by_id
    errors = {stream: found for stream, found in known.items() if nics[stream.src_nic].host == host}
    jobs = state.jobs.values() if errors else ()
    found = (_refused(state, flow, errors) for job in jobs for flow in flows_of_streams(job.flows.flows, errors))
    return sorted(each for each in found if each is not None)


def refused_flow(state: State, reports: Reports, flow: FlowPlan) -> Refused | None:
    """Return where the packets of a flow are refused; None where no error says so."""
    return _refused(state, flow, reports.path_errors(state.fabric))


def notes_of(refused: list[Refused]) -> Iterator[Note]:
    """Yield a line of the log for each link with new errors."""
    for link, group in groupby((each for each in refused if each.new), key=attrgetter("link")):
        flows = list(group)
        more = f" and {len(flows) - 1} more flows" if len(flows) > 1 else ""
        count = sum(flow.new for flow in flows)
        text = (
            f"{count} ICMPv6 errors say that packets of {flows[0].flow_id}{more} are refused here: a hint, no evidence"
        )
        yield Note(severity="warning", subject=link, text=text)


def _refused(state: State, flow: FlowPlan, errors: Mapping[Stream, PathErrors]) -> Refused | None:
    sids, found = sids_of(state.fabric), errors.get(stream_of(flow))
    if sids is None or found is None:
        return None
    link = sids.refused_at(flow.links, flow.dst_nic, found.left)
    return Refused(link, flow.flow_id, found.errors, found.new) if link is not None else None
