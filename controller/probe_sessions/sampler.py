"""Sample the ports of running flows: a hash or route that changes without an event is found within seconds.

A change that moves a quarter of a leaf's flows is seen by one of 17 of them with 99 %; next hops that change at 64
spines move a quarter to a half. Every leaf's flows are sampled in turn, in random order, so that few flows are sampled
all. A port that leads elsewhere makes the leaf's ports suspect; then its samples pause, while the brain has them all
confirmed. Silence is no evidence.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from heddle.controller.model.event import PortsAstray
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import FlowPlan, JobFlows
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.probe_sessions.finder import Located, switch_at_end
from heddle.controller.probe_sessions.sending import Efforts, ProbeSender, Replies
from heddle.probing.probe import Question

PERIOD_S = 1.0
CERTAIN = 17
"""So many flows see a change that moves a quarter of them with 99 % (0.75 ** 17 < 0.01)."""
PAUSE_S = 10.0
"""After a change the samples of a leaf pause so long: its ports are being confirmed and published."""
Running = Mapping[str, JobFlows]
"""The flows of running jobs by job id."""


class Sample(NamedTuple):
    """A flow to sample, the leaf that it leaves, and the flows of its job when it was drawn."""

    leaf: str
    job: JobFlows
    flow: FlowPlan


class Sampler:
    """`detection_s` has by leaf in how many seconds samples see a change with 99 %, at the pace of the last round."""

    def __init__(
        self, sender: ProbeSender, fabric: Fabric, link_at: Mapping[int, str], running: Callable[[], Running],
        post: Callable[[PortsAstray], object], *, samples_pps: int, period_s: float = PERIOD_S,
    ) -> None:  # fmt: skip
        """Begin; `running` returns the flows of jobs that send, `post` posts an event. 0 samples_pps: no samples."""
        self.detection_s: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self._sender, self._fabric, self._link_at = sender, fabric, link_at
        self._running, self._post, self._samples_pps, self._period_s = running, post, samples_pps, period_s
        self._rows: dict[str, tuple[JobFlows, dict[str, list[int]]]] = {}
        self._walks: dict[str, Iterator[Sample]] = {}
        self._quiet_until_s: dict[str, float] = {}
        self._random = random.Random(0)

    async def run(self) -> None:
        """Sample until cancelled."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        while self._samples_pps:
            await asyncio.sleep(self._period_s)
            found = await self.once()
            now_s = clock()
            self._measure(found, now_s - began_s)
            began_s = now_s

    async def once(self) -> Counter[str]:
        """Sample one round; return by leaf how many flows were seen where they should be."""
        now_s, running = asyncio.get_running_loop().time(), self._running()
        drawn = await asyncio.to_thread(self._drawn, running, now_s)
        nics, to_send = self._fabric.nic_by_id, dict[int, list[Question]]()
        for sample in drawn:
            to_send.setdefault(nics[sample.flow.src_nic].ip, []).extend(self._questions(sample.flow))
        if not to_send:
            return Counter()
        replies = await self._sender.replies(to_send, Located(self._sender, self._link_at), Efforts(), tries=1)
        return self._concluded(drawn, replies)

    def _questions(self, flow: FlowPlan) -> list[Question]:
        address = self._fabric.nic_by_id[flow.dst_nic].ip
        return [Question(address, flow.udp_source_port, hop) for hop in range(2, len(flow.links))]

    def _concluded(self, drawn: Iterable[Sample], replies: Replies) -> Counter[str]:
        current = {id(job) for job in self._running().values()}
        seen, astray = Counter[str](), set[str]()
        for leaf, job, flow in drawn:
            mine = replies[self._fabric.nic_by_id[flow.src_nic].ip]
            links = [self._link_at.get(mine[each]) if each in mine else None for each in self._questions(flow)]
            if any(link not in (None, planned) for link, planned in zip(links, flow.links[1:-1], strict=True)):
                astray.update({leaf} if id(job) in current else ())  # else its plan has changed meanwhile
            elif None not in links:
                seen[leaf] += 1
        self.counts.update(confirmed=seen.total(), astray=len(astray))
        if astray:
            until_s = asyncio.get_running_loop().time() + PAUSE_S
            self._quiet_until_s |= dict.fromkeys(astray, until_s)
            self._post(PortsAstray(leaves=tuple(sorted(astray))))
        return seen

    def _measure(self, seen: Counter[str], took_s: float) -> None:
        flows: Counter[str] = Counter()
        for _, rows in self._rows.values():
            flows.update({leaf: len(of) for leaf, of in rows.items()})
        self.detection_s = {leaf: min(CERTAIN, flows[leaf]) * took_s / number for leaf, number in seen.items()}

    def _drawn(self, running: Running, now_s: float) -> list[Sample]:
        """Return the flows of a round, the leaves in turn, as far as the budgets of switches allow."""
        self._rows = {name: self._indexed(name, job) for name, job in running.items()}
        left: Counter[str] = Counter(
            {each.id: int(self._samples_pps * self._period_s) for each in self._fabric.switches}
        )
        leaves = [leaf for leaf in self._fabric.leaves if self._quiet_until_s.get(leaf, 0.0) <= now_s]
        self._random.shuffle(leaves)
        found: list[Sample] = []
        for _ in range(CERTAIN):
            for leaf in tuple(leaves):
                sample = next(self._walks.setdefault(leaf, self._walk(leaf)), None)
                if sample is None:  # the walk begins again with the next round
                    del self._walks[leaf]
                    leaves.remove(leaf)
                    continue
                switches = [switch_at_end(link) for link in sample.flow.links[1:-1]]
                if min(left[switch] for switch in switches) <= 0:
                    self.counts["over_budget"] += 1
                    continue
                left.subtract(switches)
                found.append(sample)
        return found

    def _walk(self, leaf: str) -> Iterator[Sample]:
        """Yield every running flow from a leaf whose host has an agent, once, in random order."""
        flows = [(name, row) for name, (_, rows) in self._rows.items() for row in rows.get(leaf, ())]
        self._random.shuffle(flows)
        for name, row in flows:
            if name not in self._rows:
                continue
            job = self._rows[name][0]
            flow = job.flows[row]
            if self._fabric.nic_by_id[flow.src_nic].ip in self._sender.agents.by_ip and len(flow.links) > 2:
                yield Sample(leaf, job, flow)

    def _indexed(self, name: str, job: JobFlows) -> tuple[JobFlows, dict[str, list[int]]]:
        """Return a job with the rows of its flows that leave their leaf, by leaf."""
        known = self._rows.get(name)
        if known is not None and known[0] is job:
            return known
        found: dict[str, list[int]] = {}
        table, nics = job.flows, self._fabric.nic_by_id
        if isinstance(table, FlowTable):
            ids = table.topology.nic_ids
            crossing = np.flatnonzero(table.hops[:, 0] >= 0).tolist()
            sources = [ids[nic] for nic in table.flows.src_nic[crossing].tolist()]
        else:
            crossing = [row for row, flow in enumerate(table) if len(flow.links) > 2]
            sources = [table[row].src_nic for row in crossing]
        for row, nic in zip(crossing, sources, strict=True):
            found.setdefault(nics[nic].port.switch, []).append(row)
        return job, found
