"""Trace a flow through the wanted rules of its switches."""

from collections.abc import Iterator, Mapping

from heddle.controller.brain.state import State, wanted
from heddle.controller.brain.steering.interface import Explanation
from heddle.controller.model.plan import FlowPlan
from heddle.controller.model.rule import SwitchRules
from heddle.controller.rules.trace import Packet, trace


def explained(state: State, flow: FlowPlan) -> Explanation:
    """Return where the rules take a flow, and each of their steps."""
    nics = state.fabric.nic_by_id
    packet = Packet.roce(src_ip=nics[flow.src_nic].ip, dst_ip=nics[flow.dst_nic].ip, udp_src=flow.udp_source_port)
    followed = trace(state.fabric, _Wanted(state), flow.src_nic, packet, state.health)
    verdict = "as planned" if followed.links == flow.links else f"NOT as planned ({' '.join(flow.links)})"
    text = f"The rules take it over {' '.join(followed.links)}: {followed.outcome}, {verdict}."
    found = Explanation(text, tuple(str(step) for step in followed.steps))
    return found._replace(selector="pinned by a rule on every switch with a choice") if flow.pinned else found


class _Wanted(Mapping[str, SwitchRules]):
    """The wanted rules by switch, computed on lookup."""

    def __init__(self, state: State) -> None:
        self._state = state

    def __getitem__(self, switch: str) -> SwitchRules:
        return wanted(self._state, switch)

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.underlay)

    def __len__(self) -> int:
        return len(self._state.underlay)
