"""Keep the sessions of probe agents: send them orders, and take their reports.

An order is open until its report, its session's end, or its time-out. What an agent reports of anything else is counted
and ignored, and the agent is named once for each kind of it.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.controller.model.effect import Note
from heddle.controller.probe_sessions.assembly import Lie, Reply, heard
from heddle.probing.agent.orders import MeshProbe
from heddle.probing.probe import Question

MAX_QUESTIONS = 4_096
"""The maximum of probes in an order."""
MAX_ORDERS = 4
"""The maximum of open orders of an agent for each of its NICs."""
MAX_OVERDUE = 1_024
MAX_LIES = 1_000
"""A session with so many lies ends: reading more of them would take the time of others."""
GRACE_S = 5.0
"""How much longer than its probes take an order may take: the agent may still be busy with one before it."""


class AgentError(Exception):
    """No probes can be sent: no agent is attached, or it went away, refuses or does not report; the text names it."""


class Header(NamedTuple):
    """What else of a probe's header a hash may read: the destination queue pair number and the DSCP."""

    qpn: int = 0
    dscp: int = 0


NO_HEADER = Header()


class Order(NamedTuple):
    """Probes for one agent, sent from one of its NICs."""

    number: int
    src_ip: int
    questions: tuple[Question, ...]
    rate_pps: float
    timeout_s: float
    header: Header = NO_HEADER
    mesh: tuple[MeshProbe, ...] = ()
    """Probes to other agents, instead of questions."""
    sids: tuple[int, ...] = ()
    """Addresses by which probes return by themselves, instead of questions."""
    source: int = 0
    """The IPv6 address of the NIC, for these."""

    @property
    def probes(self) -> int:
        """Return how many probes it has."""
        return len(self.questions) + self.paced

    @property
    def paced(self) -> int:
        """Return how many round trips its report has."""
        return len(self.mesh) + len(self.sids)


class ProbeResult(NamedTuple):
    """The report of an order: by probe the address of the router that replied, and the probes sent.

    Of mesh probes: the round trip of each in µs, as the contract defines it, and whether the agent stood still.
    """

    replies: dict[Question, int]
    sent: int
    rtt_us: Sequence[int] = ()
    late: bool = False


@dataclass(slots=True, eq=False)
class ProbeSession:
    """The session of one agent. `wake` is set when its stream has to check for work."""

    host: str
    ips: frozenset[int]
    rate_pps: float
    mesh_ips: frozenset[int] = frozenset()
    """The addresses from which it sends and answers mesh probes."""
    sid_ips: frozenset[int] = frozenset()
    """The addresses from which it sends probes that return by their SIDs."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ended: str = ""
    """The reason for which the stream has to end; empty while it runs."""
    to_send: deque[Order] = field(default_factory=deque)
    open: dict[int, tuple[Order, "asyncio.Future[ProbeResult]"]] = field(default_factory=dict)
    overdue: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_OVERDUE))
    """The newest orders whose reports are awaited no more."""
    lies: int = 0

    def end(self, why: str) -> None:
        """End the stream; open orders have no result."""
        self.ended = self.ended or why
        self.wake.set()
        for _, future in self.open.values():
            if not future.done():
                future.set_exception(AgentError(f"the probe agent at {self.host} went away"))


class ProbeAgents:
    """All sessions by the addresses of their NICs, one for each host."""

    def __init__(self, note: Callable[[Note], None]) -> None:
        """Begin with none; `note` writes to the event log."""
        self.by_ip: dict[int, ProbeSession] = {}
        self.by_host: dict[str, ProbeSession] = {}
        self.counts: Counter[str] = Counter()
        self.lies: Counter[Lie] = Counter()
        self.expected: defaultdict[str, float] = defaultdict(float)
        """By switch the probes that it was expected to reply to."""
        self.replied: Counter[str] = Counter()
        """By switch the replies that were located there."""
        self.on_attached: Callable[[frozenset[int]], None] = lambda addresses: None
        """Called with the addresses of an agent's NICs after it has attached."""
        self._named: set[tuple[str, str]] = set()
        self._note = note
        self._next_order = 1

    def attach(self, session: ProbeSession) -> None:
        """Make a session that of its host; an older one ends."""
        before = self.by_host.get(session.host)
        if before is not None:
            self.detach(before, "another session attached for the same host")
        self.by_host[session.host] = session
        self.by_ip |= dict.fromkeys(session.ips, session)
        self.on_attached(session.ips)

    def detach(self, session: ProbeSession, why: str = "the session ended") -> None:
        """Remove a session."""
        session.end(why)
        if self.by_host.get(session.host) is session:
            del self.by_host[session.host]
            for address in session.ips:
                del self.by_ip[address]

    async def send(
        self, src_ip: int, questions: Sequence[Question], rate_pps: float, timeout_s: float, header: Header = NO_HEADER
    ) -> ProbeResult:
        """Order probes from the agent of a NIC, and return its report; raises AgentError.

        Args:
            src_ip: the NIC's address.
            questions: MAX_QUESTIONS at most, each once.
            rate_pps: probes per second.
            timeout_s: a probe without a reply for so long is silent.
            header: of every probe.
        """
        return await self._ordered(Order(0, src_ip, tuple(questions), rate_pps, timeout_s, header))

    async def send_mesh(
        self, src_ip: int, probes: Sequence[MeshProbe], rate_pps: float, timeout_s: float, header: Header
    ) -> ProbeResult:
        """Order mesh probes from the agent of a NIC, and return its report; raises AgentError."""
        return await self._ordered(Order(0, src_ip, (), rate_pps, timeout_s, header, tuple(probes)))

    async def send_sids(
        self, ends: tuple[int, int], sids: Sequence[int], rate_pps: float, timeout_s: float, header: Header
    ) -> ProbeResult:
        """Order probes that return by their SIDs from the agent of a NIC, and return its report; raises AgentError.

        `ends` are the NIC's addresses, of IPv4 and of IPv6.
        """
        ip, source = ends
        return await self._ordered(Order(0, ip, (), rate_pps, timeout_s, header, sids=tuple(sids), source=source))

    async def _ordered(self, order: Order) -> ProbeResult:
        session = self.by_ip.get(order.src_ip)
        if session is None:
            raise AgentError("no probe agent is attached for this NIC")
        if len(session.open) >= MAX_ORDERS * len(session.ips):
            self.counts["orders_refused"] += 1
            raise AgentError(f"{len(session.open)} orders of the probe agent at {session.host} are open already")
        number, self._next_order = self._next_order, self._next_order + 1
        future: asyncio.Future[ProbeResult] = asyncio.get_running_loop().create_future()
        session.open[number] = order._replace(number=number), future
        session.to_send.append(session.open[number][0])
        session.wake.set()
        self.counts["orders"] += 1
        limit_s = order.probes / order.rate_pps + order.timeout_s + GRACE_S
        try:
            async with asyncio.timeout(limit_s):
                return await future
        except TimeoutError:
            self.counts["orders_overdue"] += 1
            text = f"the probe agent at {session.host} did not report within {limit_s:.1f} s"
            raise AgentError(text) from None
        finally:
            del session.open[number]
            if future.cancelled():
                session.overdue.append(number)

    def report(
        self, session: ProbeSession, number: int, sent: int, refused: str, replies: Sequence[Reply],
        rtt_us: Sequence[int] = (), late: bool = False,
    ) -> None:  # fmt: skip
        """Take a report: end the order that it belongs to, and count what cannot be so."""
        order, future = session.open.get(number, (None, None))
        if order is None or future is None or future.done():
            if number in session.overdue or (future is not None and future.cancelled()):
                self.counts["reports_late"] += 1
                session.overdue = deque((each for each in session.overdue if each != number), MAX_OVERDUE)
            else:
                self.lied(session, Lie.UNASKED_ORDER)
            return
        if refused:
            self.counts["orders_refused"] += 1
            future.set_exception(AgentError(f"the probe agent at {session.host} refuses: {refused}"))
            return
        if len(replies) > len(order.questions) or sent > order.probes or len(rtt_us) != order.paced:
            self.lied(session, Lie.SURPLUS)
            future.set_result(ProbeResult({}, 0, late=True))
            return
        accepted, lies = heard(frozenset(order.questions), replies)
        for lie, times in lies.items():
            self.lied(session, lie, times)
        self.counts["probes"] += sent
        self.counts["replies"] += len(accepted)
        future.set_result(ProbeResult(accepted, sent, rtt_us, late))

    def lied(self, session: ProbeSession, lie: Lie, times: int = 1) -> None:
        """Count what an agent reported and cannot be so; name it once for each kind."""
        self.lies[lie] += times
        session.lies += times
        if (session.host, lie) not in self._named:
            self._named.add((session.host, lie))
            text = f"its probe agent reports what cannot be so ({lie.replace('_', ' ')}); this is ignored"
            self._note(Note(severity="warning", subject=session.host, text=text))
        if session.lies >= MAX_LIES:
            session.end(f"{session.lies:,} replies of this session cannot be so")
