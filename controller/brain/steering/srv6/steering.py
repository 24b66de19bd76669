"""Steer by addresses: a host writes the path into each packet, so that a plan takes effect when the host has it.

No rule, no acknowledgement and no search: another path of a flow is a message to its host alone.
"""

from heddle.controller.brain.state import Job, State
from heddle.controller.brain.steering.interface import Explanation, Steering
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.plan import FlowPlan
from heddle.controller.model.srv6 import Sids


class Srv6Steering(Steering):
    """All is as the base class has it; only the explanation names the addresses."""

    def explained(self, state: State, job: Job, flow: FlowPlan) -> Explanation:
        """Return the uSID of each hop, and the addresses of data and ACKs."""
        sids = Sids(state.fabric)
        there, back = sids.destination(flow.links, flow.dst_nic), sids.destination(flow.reverse_links, flow.src_nic)
        verdict = (
            f"Its packets name their path: data is sent to {ipv6_text(there)}, ACKs to {ipv6_text(back)}. "
            f"It is planned over {' '.join(flow.links)}, by construction."
        )
        usids = sids.usids(flow.links, flow.dst_nic)
        hops = tuple(f"{link}: uSID {usid:#06x}" for link, usid in zip(flow.links[1:], usids, strict=False))
        return Explanation(verdict, hops, selector="its destination address names the path")
