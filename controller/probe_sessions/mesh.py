"""Run the ping mesh of a fabric: order probes from all agents turn by turn, and report the bad cables.

With rules in switches agents send each other probes; where packets name their paths, probes return by themselves.

A turn's probes are drawn for what is in use when it begins, and say nothing if that has changed when it ends. Turns
overlap: the next begins while replies of the one before are awaited. No link carries more than BUDGET of its rate.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from heddle.controller.brain.state import State
from heddle.controller.mesh.cover import Cover, Ground, Pairs, Probes
from heddle.controller.mesh.evidence import LOST_US, UNKNOWN_US, Turn
from heddle.controller.mesh.judge import WINDOWS_S, Judge, Relinks
from heddle.controller.mesh.returning import ReturningCover
from heddle.controller.model.event import JudgedCable
from heddle.controller.model.fabric import Cable, Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.rule import Match
from heddle.controller.model.srv6 import Sids
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.probe_sessions.far_ends import FarEnds
from heddle.controller.probe_sessions.sessions import MAX_QUESTIONS, AgentError, Header, ProbeAgents, ProbeResult
from heddle.probing.agent.end import UNSENT_US
from heddle.probing.agent.orders import MeshProbe
from heddle.probing.datagram import FRAME_BITS
from heddle.probing.self_ping import FRAME_BITS as SID_FRAME_BITS

TURN_S = 2.5
NICS_A_SECOND = 200
"""Orders a second that all agents together get: in a large fabric turns are longer."""
MAX_PPS = 2_000
"""Probes a second of the whole fabric: the controller draws each of them."""
BUDGET = 0.001
"""The part of a link's rate that probes may take."""
TIMEOUT_S = 1.0
SLOT_PROBES = 20
"""In a slot each host exchanges about so many probes, but it lasts SLOT_S at least."""
SLOT_S = 1.0
DEAD = 0.99
"""A cable that loses such a share of probes may be in a wrong port."""
Report = Callable[[tuple[JudgedCable, ...]], object]


class InUse(NamedTuple):
    """What decides which paths probes take: the fabric, what is out of use, and pairs that pins lead."""

    fabric: Fabric
    health: Health
    led: Pairs


class _Sent(NamedTuple):
    """A turn's probes, the rows of each NIC that sent some, and how long the turn took."""

    probes: Probes
    rows: list[Ints]
    seconds: float


class PingMesh:
    """The mesh of one controller. `counts` are cumulative; `crossed` is how many links the last turn's probes cross."""

    def __init__(
        self, agents: ProbeAgents, state: Callable[[], State], report: Report, noise: Callable[[int], Floats],
        *, nic_pps: float, turn_s: float = TURN_S, far_ends: FarEnds | None = None,
    ) -> None:  # fmt: skip
        """Begin; `state` returns the loop's, `report` takes all bad cables; each NIC sends `nic_pps`, 0: no mesh.

        `far_ends` finds the ports of cables that lose every probe that names its path.
        """
        self.counts: Counter[str] = Counter()
        self.crossed = 0
        self._agents, self._state, self._report, self._noise = agents, state, report, noise
        self._nic_pps, self._turn_s, self._far_ends = nic_pps, turn_s, far_ends
        self._judge: Judge | None = None
        self._cover: tuple[InUse, bytes, Cover | ReturningCover] | None = None
        self._relinks = Relinks()
        self._judging = asyncio.Lock()
        self._judged_s = 0.0

    @property
    def judge(self) -> Judge | None:
        """Return the judge of the present fabric, None before the first turn."""
        return self._judge

    async def run(self) -> None:
        """Run turns until cancelled; none on a fabric that hashes, where no probe is known to take a path."""
        clock = asyncio.get_running_loop().time
        traits = traits_of(self._state().fabric)
        if not self._nic_pps or not (traits.has_sessions or traits.in_packets):
            return
        async with asyncio.TaskGroup() as turns:
            while True:
                began_s, seconds = clock(), self._turn_s
                nics = self._attached(self._state().fabric)
                if nics.any():
                    seconds = max(self._turn_s, int(nics.sum()) / NICS_A_SECOND)
                    in_use, probes = await asyncio.to_thread(self._drawn, self._state(), nics, seconds)
                    seconds = max(seconds, self._least_s(in_use.fabric, probes))
                    if len(probes):
                        turns.create_task(self._turn(in_use, probes, seconds))
                await asyncio.sleep(max(0.0, began_s + seconds - clock()))

    def _attached(self, fabric: Fabric) -> Flags:
        """Return which NICs have an agent that takes part."""
        sessions, in_packets = set(self._agents.by_ip.values()), traits_of(fabric).in_packets
        ips = frozenset[int]().union(*((each.sid_ips if in_packets else each.mesh_ips) for each in sessions))
        return np.array([nic.ip in ips for nic in fabric.nics], dtype=np.bool_)

    def _drawn(self, state: State, nics: Flags, seconds: float) -> tuple[InUse, Probes]:
        """Return a turn's probes, and for what they are drawn."""
        in_use = in_use_of(state)
        if self._cover is None or self._cover[0] != in_use or self._cover[1] != nics.tobytes():
            topology = topology_of(in_use.fabric)
            live = Live.of(topology, in_use.health)
            ground = Ground(fabric=in_use.fabric, topology=topology, live=live, nics=nics, led=in_use.led)
            cover = ReturningCover if traits_of(in_use.fabric).in_packets else Cover
            self._cover = in_use, nics.tobytes(), cover(ground, self._noise)
        pps = min(self._nic_pps * int(nics.sum()), MAX_PPS)
        probes = self._cover[2].next(max(1, int(pps * seconds)))
        hops = np.concatenate((probes.hops, probes.reply_hops))
        self.crossed = len(np.unique(hops[hops >= 0]))
        return in_use, probes

    def _least_s(self, fabric: Fabric, probes: Probes) -> float:
        """Return the least time for a turn in which no link has more than its budget, and no NIC twice its share."""
        topology = topology_of(fabric)
        hops = np.concatenate((probes.hops, probes.reply_hops), axis=None)
        links = np.bincount(hops[hops >= 0], minlength=2 * topology.cables)
        sent = np.bincount(probes.src_nic, minlength=topology.nics)
        ends = sent + np.bincount(probes.dst_nic, minlength=topology.nics)
        bits = max(FRAME_BITS, SID_FRAME_BITS) * np.concatenate((links, ends, ends))
        by_links = float((bits / (BUDGET * topology.capacity)).max(initial=0.0))
        return max(by_links, float(sent.max(initial=0)) / (2 * self._nic_pps))

    async def _turn(self, in_use: InUse, probes: Probes, seconds: float) -> None:
        """Send a turn's probes, and judge by what is reported."""
        sources = np.unique(probes.src_nic).tolist()
        rows = [np.flatnonzero(probes.src_nic == nic)[:MAX_QUESTIONS] for nic in sources]
        results = await asyncio.gather(*(self._ordered(in_use.fabric, probes, mine, seconds) for mine in rows))
        state = self._state()
        if self._judging.locked() or await asyncio.to_thread(in_use_of, state) != in_use:
            self.counts["turns_discarded"] += 1
            return
        rtt_us = self._round_trips(probes, rows, results)
        self.counts.update(
            turns=1, answered=int((rtt_us > LOST_US).sum()), lost=int((rtt_us == LOST_US).sum()),
            unknown=int((rtt_us == UNKNOWN_US).sum()),
        )  # fmt: skip
        async with self._judging:
            await asyncio.to_thread(self._take, state, _Sent(probes, rows, seconds), rtt_us)
        if (judge := self._judge) is not None and (judge.raised or self._judged_s >= WINDOWS_S[1]):
            self._report(bad_cables(in_use.fabric, judge))
        if probes.sids and self._far_ends is not None and judge is not None:
            await self._hear(in_use.fabric, self._far_ends, probes, rtt_us)

    async def _hear(self, fabric: Fabric, far_ends: FarEnds, probes: Probes, rtt_us: Ints) -> None:
        """Take what a turn's probes say of plugs; cables that are in their ports again are judged anew."""
        judge = self._judge
        if judge is None:
            return

        def answered() -> list[tuple[Cable, int]]:
            farthest = probes.hops[np.arange(len(probes)), (probes.hops >= 0).sum(axis=1) - 1]
            return [(fabric.cables[farthest[row]], probes.sids[row]) for row in np.flatnonzero(rtt_us > LOST_US)]

        dead = [fabric.cables[link] for link, loss in judge.raised.items() if loss >= DEAD]
        righted = await far_ends.update(fabric, answered, dead)
        index = judge.crossed.topology.cable_index
        async with self._judging:
            judge.relinked(index[cable.id] for cable in righted)

    async def _ordered(self, fabric: Fabric, probes: Probes, rows: Ints, seconds: float) -> ProbeResult | None:
        """Order one NIC's probes of a turn; None where nothing is known of them."""
        nics = fabric.nics
        nic = nics[probes.src_nic[rows[0]]]
        pace = len(rows) / seconds, TIMEOUT_S, Header(dscp=nic.traffic_class.dscp)
        try:
            if probes.sids:
                ends, sids = (nic.ip, Sids(fabric).source(nic)), [probes.sids[row] for row in rows]
                return await self._agents.send_sids(ends, sids, *pace)
            columns = zip(probes.dst_nic[rows], probes.ports[rows], probes.reply_ports[rows], strict=True)
            mine = [MeshProbe(nics[dst].ip, int(port), int(reply_port)) for dst, port, reply_port in columns]
            return await self._agents.send_mesh(nic.ip, mine, *pace)
        except AgentError:
            self.counts["orders_failed"] += 1
            return None

    def _round_trips(self, probes: Probes, rows: list[Ints], results: list[ProbeResult | None]) -> Ints:
        """Return the round trip of each probe; nothing is known of those from and to a host that was late."""
        rtt_us, late = np.full(len(probes), UNKNOWN_US, dtype=np.int64), list[int]()
        for mine, result in zip(rows, results, strict=True):
            if result is not None and result.late:
                late.append(int(probes.src_nic[mine[0]]))
                self.counts["reports_late"] += 1
            elif result is not None:
                found = np.array(result.rtt_us, dtype=np.int64)
                rtt_us[mine] = np.where(found == UNSENT_US, UNKNOWN_US, found)
        rtt_us[np.isin(probes.dst_nic, late)] = UNKNOWN_US
        return rtt_us

    def _take(self, state: State, sent: "_Sent", rtt_us: Ints) -> None:
        """Judge by a turn; called in a thread."""
        topology = topology_of(state.fabric)
        if self._judge is None or self._judge.crossed.topology is not topology:
            judge = Judge(topology, both_ways=traits_of(state.fabric).in_packets)
            self._judge, self._relinks, self._judged_s = judge, Relinks(), 0.0
        judge = self._judge
        back = self._relinks.update(state.health.down_cables, self._judged_s)
        judge.relinked(topology.cable_index[cable] for cable in back)
        slot, busy = np.zeros(len(rtt_us), dtype=np.int64), np.zeros(judge.crossed.parts, dtype=np.bool_)
        slots = max(1, int(min(sent.seconds / SLOT_S, 2 * len(rtt_us) / (SLOT_PROBES * judge.crossed.hosts))))
        for mine in sent.rows:
            slot[mine] = np.arange(len(mine)) * slots // max(1, len(mine))
        busy[
            [
                judge.crossed.of_link(topology.link_index[hot.link])
                for hot in state.hot_ports.values()
                if hot.link in state.fabric.cable_by_link
            ]
        ] = True
        judge.take(Turn(sent.probes, slot, rtt_us, busy, sent.seconds))
        self.counts["queued"] = judge.queued
        self._judged_s += sent.seconds


def in_use_of(state: State) -> InUse:
    """Return what decides which paths probes take."""
    number = {nic.ip: at for at, nic in enumerate(state.fabric.nics)}
    pins = {
        (rule.match.ipv4_src.value, rule.match.ipv4_dst.value)
        for job in state.jobs.values()
        for rules in job.pin_rules.values()
        for rule in rules
        if isinstance(rule.match, Match) and rule.match.ipv4_src is not None and rule.match.ipv4_dst is not None
    }
    led = frozenset((number[src], number[dst]) for src, dst in pins if src in number and dst in number)
    return InUse(state.fabric, state.out_of_use, led)


def bad_cables(fabric: Fabric, judge: Judge) -> tuple[JudgedCable, ...]:
    """Return the cables on which probes are lost, with the share that the worse direction loses.

    Shares are rounded, so that a cable that stays as bad as it is stays the same value.
    """
    names, found = judge.crossed.topology.link_ids, dict[str, dict[str, float]]()
    for link, loss in judge.raised.items():
        cable = fabric.cable_by_link[names[link]]
        links = (cable.up_link, cable.down_link) if judge.crossed.both_ways else (names[link],)
        found.setdefault(cable.id, {}).update(dict.fromkeys(links, float(f"{loss:.0e}")))
    return tuple(
        JudgedCable(cable=cable, loss=max(losses.values()), probed=tuple(sorted(losses)))
        for cable, losses in found.items()
    )
