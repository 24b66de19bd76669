"""Send probes by the agents, again those without a reply, and expect of no switch more replies than its budget."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from heddle.controller.model.address import ip_text
from heddle.controller.model.fabric import Fabric
from heddle.controller.probe_sessions.budget import Budget, load_of, rates
from heddle.controller.probe_sessions.hops import Hops
from heddle.controller.probe_sessions.sessions import (
    MAX_QUESTIONS,
    NO_HEADER,
    AgentError,
    Header,
    ProbeAgents,
    ProbeResult,
)
from heddle.probing.probe import Question

TIMEOUT_S = 0.25
TRIES = 3
"""A probe without a reply is sent so often."""
ORDER_S = 1.0
"""An order takes so long at most: a search that ends leaves little behind, and an agent that is gone shows soon."""
USUAL_PPS = 1_000.0
MAX_SLOW_S = 60.0
"""So much longer than by an agent of USUAL_PPS a search may take by a slower one: the searches of others wait."""
ToSend = Mapping[int, Sequence[Question]]
Replies = dict[int, dict[Question, int]]


class ReplyReader(Protocol):
    """Reads replies for a search, check or sample."""

    def read(self, src_ip: int, question: Question, address: int) -> str | None:
        """Return the switch that replied, "" for an unknown one, or None for a reply that does not count."""


@dataclass
class Efforts:
    """The probes sent, and by source address why the rest was given up."""

    sent: int = 0
    lost: dict[int, str] = field(default_factory=dict)
    slow_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    """By source address how much longer its probes take than those of an agent of USUAL_PPS."""


class ProbeSender:
    """Sends probes for all searches, checks and samples, which share the budgets of switches."""

    def __init__(self, agents: ProbeAgents, fabric: Fabric, *, switch_pps: float, timeout_s: float = TIMEOUT_S) -> None:
        """Begin; `switch_pps` bounds the probes that expire at each switch."""
        self.agents, self.hops = agents, Hops(fabric)
        self._timeout_s, self._budget = timeout_s, Budget(switch_pps)
        self._host_of = {nic.ip: nic.host for nic in fabric.nics}

    async def replies(
        self, to_send: ToSend, reader: ReplyReader, efforts: Efforts, header: Header = NO_HEADER, tries: int = TRIES
    ) -> Replies:
        """Send the probes of each source, again those without a reply; return the replies that count."""
        found: Replies = {src_ip: {} for src_ip in to_send}
        for _ in range(tries):
            self._give_up_absent(to_send, efforts)
            left: dict[int, Sequence[Question]] = {
                src_ip: [question for question in dict.fromkeys(questions) if question not in found[src_ip]]
                for src_ip, questions in to_send.items()
                if src_ip not in efforts.lost
            }
            left = self._of_quick({src_ip: questions for src_ip, questions in left.items() if questions}, efforts)
            if not left:
                break
            await self._once(left, found, _Round(reader, efforts, header))
        return found

    def _give_up_absent(self, to_send: ToSend, efforts: Efforts) -> None:
        for src_ip in to_send:
            if src_ip not in self.agents.by_ip:
                host = self._host_of.get(src_ip, ip_text(src_ip))
                efforts.lost.setdefault(src_ip, f"no probe agent at {host}")

    def _of_quick(self, left: ToSend, efforts: Efforts) -> dict[int, Sequence[Question]]:
        """Return what is left to send by agents that are quick enough; the others are given up."""
        for src_ip, questions in left.items():
            rate_pps = self.agents.by_ip[src_ip].rate_pps
            efforts.slow_s[src_ip] += len(questions) / rate_pps - len(questions) / max(rate_pps, USUAL_PPS)
            if efforts.slow_s[src_ip] > MAX_SLOW_S:
                host = self._host_of.get(src_ip, ip_text(src_ip))
                text = f"the probe agent at {host} sends {rate_pps:g} probes a second, too few for this search"
                efforts.lost.setdefault(src_ip, text)
        return {src_ip: questions for src_ip, questions in left.items() if src_ip not in efforts.lost}

    async def _once(self, left: ToSend, found: Replies, turn: "_Round") -> None:
        """Send each probe once, within the budgets of switches."""
        load = load_of(
            self.hops.switches(src_ip, question.dst_ip, question.ttl)
            for src_ip, questions in left.items()
            for question in questions
        )
        for switch, probes in load.items():
            self.agents.expected[switch] += probes
        spread_s = self._budget.spread_s(load, asyncio.get_running_loop().time())
        limits_pps = {src_ip: self.agents.by_ip[src_ip].rate_pps for src_ip in left}
        pace = rates({src_ip: len(questions) for src_ip, questions in left.items()}, limits_pps, spread_s)
        begins = (number / len(left) / pace[src_ip] for number, src_ip in enumerate(left))
        async with asyncio.TaskGroup() as group:
            for (src_ip, questions), begin_s in zip(left.items(), begins, strict=True):
                group.create_task(self._send(src_ip, questions, pace[src_ip], begin_s, found[src_ip], turn))

    async def _send(
        self, src_ip: int, questions: Sequence[Question], rate_pps: float, begin_s: float, found: dict[Question, int],
        turn: "_Round",
    ) -> None:  # fmt: skip
        """Send from one source, an order after the other; a source whose agent fails is given up."""
        clock = asyncio.get_running_loop().time
        began_s = clock() + begin_s
        size = min(max(1, int(rate_pps * ORDER_S)), MAX_QUESTIONS)
        for first in range(0, len(questions), size):
            part = questions[first : first + size]
            await asyncio.sleep(began_s + first / rate_pps - clock())
            try:
                result = await self.agents.send(src_ip, part, rate_pps, self._timeout_s, turn.header)
            except AgentError as error:
                turn.efforts.lost.setdefault(src_ip, str(error))
                return
            self._take(src_ip, result, found, turn)

    def _take(self, src_ip: int, result: ProbeResult, found: dict[Question, int], turn: "_Round") -> None:
        """Take the replies that count, and correct the budgets by the switches that replied."""
        turn.efforts.sent += result.sent
        replied: Counter[str] = Counter()
        located = []
        for question, address in result.replies.items():
            switch = turn.reader.read(src_ip, question, address)
            if switch is None:
                continue
            found[question] = address
            if switch:
                replied[switch] += 1
                located.append(question)
        self.agents.replied.update(replied)
        expected = load_of(self.hops.switches(src_ip, question.dst_ip, question.ttl) for question in located)
        self._budget.correct(expected, replied, asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class _Round:
    """The reader of the replies, the efforts so far, and the header of the probes."""

    reader: ReplyReader
    efforts: Efforts
    header: Header
