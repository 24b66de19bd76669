"""Derive the changes of running flows from two generations of a job's plan. Pure.

A flow moves as after a failure if its old path, or that of its ACKs, has a link that is down now or was down at the
generation before; so also where it had no path at all, and where the link has returned and the path stayed the same.
Every other move is planned. A drained link is up: what leaves it drains first and loses nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

from heddle.controller.model.plan import AdmissionWindow
from heddle.mininet_topos.measure.flow_run import FlowChange
from heddle.mininet_topos.measure.spray_paths import PathsOf, no_paths
from heddle.mininet_topos.nic.path_move import FAILURE, PLANNED
from heddle.v1 import heddle_pb2 as pb

Pace = Callable[[pb.FlowPlan], int]


def planned_rate(flow: pb.FlowPlan) -> int:
    """Return the plan's rate: the default pace of a flow."""
    return flow.rate_bps


def no_floor(_flow: pb.FlowPlan) -> int:
    """Return 0: congestion control may cut the flow to any rate, and it keeps to its pace."""
    return 0


def plan_changes(
    before: Mapping[str, pb.FlowPlan],
    after: Iterable[pb.FlowPlan],
    *,
    down_before: Collection[str],
    down: Collection[str],
    reason: str,
    pace: Pace = planned_rate,
    floor: Pace = no_floor,
    paths_of: PathsOf = no_paths,
) -> dict[str, FlowChange]:
    """Return the changes by flow id; flows that `before` has not are left out.

    `down` are the directed links that are down now, `down_before` those at the generation before; `pace` gives the rate
    in bits of Ethernet frame per second at which a flow is sent, `floor` that below which it is not cut, `paths_of` the
    paths over which it sprays.
    """
    found = {}
    for new in after:
        old = before.get(new.flow_id)
        if old is None:
            continue
        resends = _was_broken(old, {*down, *down_before}) and not _crosses(new, down)
        change = _change(old, new, FAILURE if resends else PLANNED, reason, (pace, floor), paths_of)
        if change != FlowChange(reason=reason):
            found[new.flow_id] = change
    return found


def _was_broken(flow: pb.FlowPlan, down: Collection[str]) -> bool:
    return not flow.links or _crosses(flow, down)


def _crosses(flow: pb.FlowPlan, links: Collection[str]) -> bool:
    return any(link in links for link in (*flow.links, *flow.reverse_links))


def _change(
    old: pb.FlowPlan,
    new: pb.FlowPlan,
    move: Literal["planned", "failure"],
    reason: str,
    of: tuple[Pace, Pace],
    paths_of: PathsOf,
) -> FlowChange:
    """Return the change with only those fields that differ."""
    pace, floor = of
    (paths, back), (old_paths, old_back) = paths_of(new), paths_of(old)
    port, reverse_port = new.udp_source_port, new.reverse_udp_source_port
    return FlowChange(
        udp_source_port=port if port != old.udp_source_port else None,
        reverse_udp_source_port=reverse_port if reverse_port != old.reverse_udp_source_port else None,
        rate_bps=pace(new) if pace(new) != pace(old) else None,
        floor_bps=floor(new) if floor(new) != floor(old) else None,
        window=_window(new) if new.window != old.window else None,
        sid=new.sid if new.sid != old.sid else None,
        reverse_sid=new.reverse_sid if new.reverse_sid != old.reverse_sid else None,
        paths=paths if paths != old_paths else None,
        reverse_paths=back if back != old_back else None,
        move=move,
        reason=reason,
    )


def _window(flow: pb.FlowPlan) -> AdmissionWindow:
    return AdmissionWindow(slot=flow.window.slot, slots=flow.window.slots, slot_ns=flow.window.slot_ns)
