"""Find the source ports of planned paths by the probe agents: ask what the search wants to know, locate the replies.

The agents report what they saw. A reply counts only where a path between the two NICs comes by that switch at that hop;
anything else is silence, and silence is no evidence. No switch is asked for more than its budget.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.model.address import ip_text
from controller.model.fabric import Fabric
from controller.runtime.probing.assembly import Lie
from controller.runtime.probing.budget import Budget, load_of, rates
from controller.runtime.probing.hops import Hops
from controller.runtime.probing.sessions import MAX_QUESTIONS, AgentError, Answers, ProbeAgents
from probing.flow import Found, Wanted
from probing.probe import Question
from probing.search import Search

SWITCH_PPS = 300
"""Half of what SONiC's switches reply to by default."""
TIMEOUT_S = 0.25
TRIES = 3
"""A silent question is asked so often."""
ORDER_S = 1.0
"""An order takes so long at most: a search that ends leaves little behind, and an agent that is gone shows soon."""
MAX_WAITING = 64
"""The most searches that wait for their turn."""
Asked = Mapping[int, Sequence[Question]]


class Pair(NamedTuple):
    """Two NICs, by their addresses."""

    src_ip: int
    dst_ip: int


@dataclass
class _Seen:
    """What one search has seen: by pair how many questions and replies, addresses of no port, and sources given up."""

    asked: Counter[Pair] = field(default_factory=Counter)
    replied: Counter[Pair] = field(default_factory=Counter)
    unknown: dict[Pair, int] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    sent: int = 0


class ProbeFinder:
    """A `PortFinder` over attached agents, one search at a time; a search may be cancelled."""

    def __init__(
        self, agents: ProbeAgents, fabric: Fabric, link_at: Mapping[int, str], *, switch_pps: float = SWITCH_PPS,
        timeout_s: float = TIMEOUT_S,
    ) -> None:  # fmt: skip
        """Begin; `link_at` names the directed link that ends at a port's address, `switch_pps` bounds each switch."""
        self._agents, self._link_at, self._timeout_s = agents, link_at, timeout_s
        self._hops, self._budget = Hops(fabric), Budget(switch_pps)
        self._host_of = {nic.ip: nic.host for nic in fabric.nics}
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def find(self, flows: Sequence[Wanted], ways: int) -> Found:
        """Return a port, or the reason why there is none, for every flow: see `runtime.ports.PortFinder`."""
        if self._waiting >= MAX_WAITING:
            self._agents.counts["searches_refused"] += 1
            text = f"{MAX_WAITING} searches for ports wait already"
            return Found({}, {flow.flow_id: text for flow in flows}, 0)
        self._waiting += 1
        try:
            async with self._turn:
                return await self._found(flows, ways)
        finally:
            self._waiting -= 1

    async def _found(self, flows: Sequence[Wanted], ways: int) -> Found:
        seen, missing = _Seen(), dict[str, str]()
        search = await asyncio.to_thread(Search, flows, self._link_at, ways)
        while not search.is_over:
            asked = await asyncio.to_thread(search.questions)
            replies = await self._replies(asked, seen)
            for src_ip in asked:
                if src_ip in seen.lost:
                    missing |= dict.fromkeys(search.abandon(src_ip), seen.lost[src_ip])
                else:
                    search.heard(src_ip, replies[src_ip])
            await asyncio.sleep(0)
        spent = set(search.missing)
        missing |= {flow.flow_id: _why(flow, search, seen, ways) for flow in flows if flow.flow_id in spent}
        reached = {flow_id: search.reached(flow_id) if flow_id in spent else frozenset[str]() for flow_id in missing}
        return Found(search.ports, missing, seen.sent, reached)

    async def _replies(self, asked: Asked, seen: _Seen) -> dict[int, dict[Question, int]]:
        """Ask questions by source, the silent ones again; return the replies that can be so."""
        found: dict[int, dict[Question, int]] = {src_ip: {} for src_ip in asked}
        for _ in range(TRIES):
            self._give_up_absent(asked, seen)
            left = {
                src_ip: [question for question in dict.fromkeys(questions) if question not in found[src_ip]]
                for src_ip, questions in asked.items()
                if src_ip not in seen.lost
            }
            left = {src_ip: questions for src_ip, questions in left.items() if questions}
            if not left:
                break
            await self._once(left, found, seen)
        return found

    def _give_up_absent(self, asked: Asked, seen: _Seen) -> None:
        for src_ip in asked:
            if src_ip not in self._agents.by_ip:
                host = self._host_of.get(src_ip, ip_text(src_ip))
                seen.lost.setdefault(src_ip, f"no probe agent at {host}")

    async def _once(self, left: Asked, found: dict[int, dict[Question, int]], seen: _Seen) -> None:
        """Ask each question once, within the budgets of switches."""
        load = load_of(
            self._hops.switches(src_ip, question.dst_ip, question.ttl)
            for src_ip, questions in left.items()
            for question in questions
        )
        for switch, probes in load.items():
            self._agents.asked[switch] += probes
        spread_s = self._budget.spread_s(load, asyncio.get_running_loop().time())
        limits_pps = {src_ip: self._agents.by_ip[src_ip].rate_pps for src_ip in left}
        pace = rates({src_ip: len(questions) for src_ip, questions in left.items()}, limits_pps, spread_s)
        begins = (number / len(left) / pace[src_ip] for number, src_ip in enumerate(left))
        async with asyncio.TaskGroup() as group:
            for (src_ip, questions), begin_s in zip(left.items(), begins, strict=True):
                group.create_task(self._ask(src_ip, questions, pace[src_ip], begin_s, found[src_ip], seen))

    async def _ask(
        self, src_ip: int, questions: Sequence[Question], rate_pps: float, begin_s: float, found: dict[Question, int],
        seen: _Seen,
    ) -> None:  # fmt: skip
        """Ask from one source, an order after the other; a source whose agent fails is given up."""
        clock = asyncio.get_running_loop().time
        began_s = clock() + begin_s
        size = min(max(1, int(rate_pps * ORDER_S)), MAX_QUESTIONS)
        for first in range(0, len(questions), size):
            part = questions[first : first + size]
            await asyncio.sleep(began_s + first / rate_pps - clock())
            try:
                answers = await self._agents.ask(src_ip, part, rate_pps, self._timeout_s)
            except AgentError as error:
                seen.lost.setdefault(src_ip, str(error))
                return
            self._locate(src_ip, part, answers, found, seen)

    def _locate(
        self, src_ip: int, asked: Sequence[Question], answers: Answers, found: dict[Question, int], seen: _Seen
    ) -> None:
        """Take the replies that can be so, and correct the budgets by the switches that replied."""
        seen.sent += answers.sent
        seen.asked.update(Pair(src_ip, question.dst_ip) for question in asked)
        replied: Counter[str] = Counter()
        located = []
        for question, address in answers.replies.items():
            pair, link = Pair(src_ip, question.dst_ip), self._link_at.get(address)
            if link is None:
                self._agents.counts["unknown_addresses"] += 1
                seen.unknown[pair] = address
            elif self._hops.may_end(src_ip, question.dst_ip, question.ttl, link):
                found[question] = address
                seen.replied[pair] += 1
                replied[link.partition(">")[2].rpartition(":")[0]] += 1
                located.append(question)
            elif (session := self._agents.by_ip.get(src_ip)) is not None:
                self._agents.lied(session, Lie.WRONG_HOP)
        self._agents.replied.update(replied)
        expected = load_of(self._hops.switches(src_ip, question.dst_ip, question.ttl) for question in located)
        self._budget.correct(expected, replied, asyncio.get_running_loop().time())


def _why(flow: Wanted, search: Search, seen: _Seen, ways: int) -> str:
    """Return why no port of a flow was found."""
    pair = Pair(flow.src_ip, flow.dst_ip)
    asked, replied = seen.asked[pair], seen.replied[pair]
    if pair in seen.unknown and not replied:
        return (
            f"replies to its probes come from {ip_text(seen.unknown[pair])}, which is no port of the fabric: routers "
            f"have to reply from the port by which a probe came in (icmp_errors_use_inbound_ifaddr=1 on Linux)"
        )
    if not replied:
        return f"no router replied to {asked} probes: time-exceeded errors may be off, or limited"
    reached = len(search.reached(flow.flow_id))
    return f"no port leads over its path: {asked} probes, {replied} replies, {reached} of {ways} paths seen"
