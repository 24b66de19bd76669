"""Find the source ports of planned paths by the probe agents: send the probes of a search, locate the replies.

The agents report what they saw. A reply counts only where a path between the two NICs comes by that switch at that hop;
anything else is silence, and silence is no evidence. No switch gets more probes than its budget.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from heddle.controller.model.address import ip_text
from heddle.controller.probe_sessions.assembly import Lie
from heddle.controller.probe_sessions.sending import Efforts, ProbeSender, Replies, ToSend
from heddle.probing.flow import Found, Wanted
from heddle.probing.probe import Question
from heddle.probing.search import Search

MAX_WAITING = 64
"""The maximum of searches that wait for their turn."""


class Pair(NamedTuple):
    """Two NICs, by their addresses."""

    src_ip: int
    dst_ip: int


class Located:
    """Reads replies: those count whose address is that of a link by which the probe can have come in."""

    def __init__(self, sender: ProbeSender, link_at: Mapping[int, str]) -> None:
        self.replied: Counter[Pair] = Counter()
        self.unknown: dict[Pair, int] = {}
        """Addresses of no port."""
        self._sender, self._link_at = sender, link_at

    def read(self, src_ip: int, question: Question, address: int) -> str | None:
        """Return the switch that replied, None for a reply that cannot be so or is from no port."""
        agents, pair, link = self._sender.agents, Pair(src_ip, question.dst_ip), self._link_at.get(address)
        if link is None:
            agents.counts["unknown_addresses"] += 1
            self.unknown[pair] = address
            return None
        if self._sender.hops.may_end(src_ip, question.dst_ip, question.ttl, link):
            self.replied[pair] += 1
            return switch_at_end(link)
        if (session := agents.by_ip.get(src_ip)) is not None:
            agents.lied(session, Lie.WRONG_HOP)
        return None


def switch_at_end(link: str) -> str:
    """Return the switch that a directed link between switches leads to."""
    return link.partition(">")[2].rpartition(":")[0]


class ProbeFinder:
    """A `PortFinder` over attached agents, one search at a time; a search may be cancelled."""

    def __init__(self, sender: ProbeSender, link_at: Mapping[int, str]) -> None:
        """Begin; `link_at` names the directed link that ends at a port's address."""
        self._sender, self._link_at = sender, link_at
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def find(self, flows: Sequence[Wanted], ways: int) -> Found:
        """Return a port, or the reason why there is none, for every flow: see `runtime.ports.PortFinder`."""
        if self._waiting >= MAX_WAITING:
            self._sender.agents.counts["searches_refused"] += 1
            text = f"{MAX_WAITING} searches for ports wait already"
            return Found({}, {flow.flow_id: text for flow in flows}, 0)
        self._waiting += 1
        try:
            async with self._turn:
                return await self._found(flows, ways)
        finally:
            self._waiting -= 1

    async def _found(self, flows: Sequence[Wanted], ways: int) -> Found:
        located, efforts, missing = Located(self._sender, self._link_at), Efforts(), dict[str, str]()
        number: Counter[Pair] = Counter()
        search = await asyncio.to_thread(Search, flows, self._link_at, ways)
        while not search.is_over:
            to_send = await asyncio.to_thread(search.questions)
            number.update(Pair(src_ip, each.dst_ip) for src_ip, questions in to_send.items() for each in questions)
            replies = await self._sender.replies(to_send, located, efforts)
            missing |= _heard(search, to_send, replies, efforts)
            await asyncio.sleep(0)
        spent = set(search.missing)
        missing |= {flow.flow_id: _why(flow, search, located, number, ways) for flow in flows if flow.flow_id in spent}
        reached = {flow_id: search.reached(flow_id) if flow_id in spent else frozenset[str]() for flow_id in missing}
        return Found(search.ports, missing, efforts.sent, reached, search.elsewhere)


def _heard(search: Search, to_send: ToSend, replies: Replies, efforts: Efforts) -> dict[str, str]:
    """Let the search take the replies; return why flows are missing whose source was given up."""
    missing: dict[str, str] = {}
    for src_ip in to_send:
        if src_ip in efforts.lost:
            missing |= dict.fromkeys(search.abandon(src_ip), efforts.lost[src_ip])
        else:
            search.heard(src_ip, replies[src_ip])
    return missing


def _why(flow: Wanted, search: Search, located: Located, number: Counter[Pair], ways: int) -> str:
    """Return why no port of a flow was found."""
    pair = Pair(flow.src_ip, flow.dst_ip)
    sent, replied = number[pair], located.replied[pair]
    if pair in located.unknown and not replied:
        return (
            f"replies to its probes come from {ip_text(located.unknown[pair])}, which is no port of the fabric: "
            f"routers have to reply from the port by which a probe came in (icmp_errors_use_inbound_ifaddr=1 on Linux)"
        )
    if not replied:
        return f"no router replied to {sent} probes: time-exceeded errors may be off, or limited"
    reached = len(search.reached(flow.flow_id))
    return f"no port leads over its path: {sent} probes, {replied} replies, {reached} of {ways} paths seen"
