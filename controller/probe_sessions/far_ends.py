"""Find what is at the far end of cables that lose every probe over SRv6, by pings from two agents of a leaf.

Two NICs of different hosts send the same pings (`model.srv6_pings`), and what both agree on is heard: no single agent
accuses a cable. Cables that are found in a wrong port are pinged again every LOCATE_S, until they are right.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from functools import partial

from heddle.controller.mesh.hearing import Changes, PingedPeers
from heddle.controller.model.fabric import Cable, Fabric, Nic
from heddle.controller.model.srv6 import Sids
from heddle.controller.model.srv6_pings import Pinged, Pings
from heddle.controller.probe_sessions.sessions import MAX_QUESTIONS, AgentError, Header, ProbeAgents
from heddle.probing.agent.end import UNSENT_US

LOCATE_S = 5.0
MAX_LEAVES = 16
PINGS_PPS, TIMEOUT_S = 1_000.0, 0.3


class FarEnds:
    """The far ends of one controller's cables; `hear` takes what ports hear anew."""

    def __init__(self, agents: ProbeAgents, hear: Callable[[Changes], object]) -> None:
        """Begin with nothing heard."""
        self._agents, self._hear = agents, hear
        self._peers: PingedPeers | None = None
        self._next_s, self._first_pair = 0.0, 0

    async def update(
        self, fabric: Fabric, answered: Callable[[], Iterable[tuple[Cable, int]]], dead: Collection[Cable]
    ) -> frozenset[Cable]:
        """Take a turn's answered probes, and the cables that lose all; return those that are right again.

        `answered` returns each cable with a probe's address; it is called in a thread.
        """
        if self._peers is None or self._peers.fabric is not fabric:
            self._peers = PingedPeers(fabric)
        peers, now_s = self._peers, asyncio.get_running_loop().time()
        changes, was_wrong = await asyncio.to_thread(lambda: (peers.answered(answered()), peers.wrong))
        self._posted(changes)
        if not (was_wrong or dead) or now_s < self._next_s:
            return frozenset()
        self._next_s = now_s + LOCATE_S
        for nics in self._pairs(fabric, was_wrong.union(dead)):
            try:
                reports = await asyncio.gather(*(self._pinged(fabric, nic) for nic in nics))
            except AgentError:
                continue
            self._posted(await asyncio.to_thread(peers.located, reports))
        return was_wrong - await asyncio.to_thread(lambda: peers.wrong)

    def _posted(self, changes: Changes) -> None:
        if changes:
            self._hear(changes)

    def _pairs(self, fabric: Fabric, cables: Iterable[Cable]) -> list[tuple[Nic, ...]]:
        """Return two NICs of each leaf that is to ping: of different hosts, with agents that send such probes.

        They are MAX_LEAVES at most, the next ones at the next call.
        """
        found = set[tuple[Nic, ...]]()
        for cable in cables:
            leaves = [cable.lower.switch, *(each.lower.switch for each in fabric.down_cables[cable.lower.switch])]
            pairs = (self._pair(fabric.nics_of_leaf.get(leaf, ())) for leaf in leaves)
            found.update([pair for pair in pairs if pair][:1])
        ordered = sorted(found, key=lambda pair: pair[0].id)
        begin = self._first_pair % len(ordered) if ordered else 0
        self._first_pair = begin + MAX_LEAVES
        return [*ordered[begin:], *ordered[:begin]][:MAX_LEAVES]

    def _pair(self, nics: Iterable[Nic]) -> tuple[Nic, ...]:
        sessions = self._agents.by_ip
        by_host = {nic.host: nic for nic in nics if nic.ip in sessions and nic.ip in sessions[nic.ip].sid_ips}
        return tuple(by_host.values())[:2] if len(by_host) > 1 else ()

    async def _pinged(self, fabric: Fabric, nic: Nic) -> Pinged:
        """Return what the pings of one NIC show; raises AgentError."""
        sids = Sids(fabric)
        send = partial(self._sent, asyncio.get_running_loop(), nic, sids.source(nic))
        return await asyncio.to_thread(Pings(fabric, nic, sids).check, send)

    def _sent(
        self, running: asyncio.AbstractEventLoop, nic: Nic, source: int, addresses: Collection[int]
    ) -> Collection[int]:
        """Send pings, and return those that came back; called in a thread."""
        wanted, back = list(addresses), set[int]()
        for start in range(0, len(wanted), MAX_QUESTIONS):
            part = wanted[start : start + MAX_QUESTIONS]
            header = Header(dscp=nic.traffic_class.dscp)
            sending = self._agents.send_sids((nic.ip, source), part, PINGS_PPS, TIMEOUT_S, header)
            result = asyncio.run_coroutine_threadsafe(sending, running).result()
            back.update(one for one, us in zip(part, result.rtt_us, strict=False) if 0 < us < UNSENT_US)
        return back
