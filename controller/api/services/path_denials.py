"""Take the paths that spraying NICs deny, as hosts report them, and say which cables are bad by that."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from heddle.controller.api.worker import in_worker
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.observed import MAX_QUEUE_PAIRS, QueuePair
from heddle.controller.model.path_evidence import MAX_PATHS, Cables, FlowPaths, PathEvidence, cables_by_sid
from heddle.controller.model.srv6 import sids_of
from heddle.controller.runtime.attached import ReportedFlows
from heddle.controller.runtime.judged_cables import denied_cable
from heddle.controller.runtime.loop import Loop


class PathDenials:
    """What all hosts deny."""

    def __init__(self, loop: Loop, flows: ReportedFlows) -> None:
        self._loop, self._flows = loop, flows
        self._evidence = PathEvidence()
        self._timer: asyncio.TimerHandle | None = None

    async def reported(self, host: str, pairs: Sequence[QueuePair]) -> None:
        """Take a host's report of all its queue pairs."""
        spraying = [pair for pair in pairs[:MAX_QUEUE_PAIRS] if pair.paths]
        if not spraying and host not in self._evidence.flows_of:
            return
        flows, counts = await in_worker(_flows_named, self._loop.state.fabric, host, spraying)
        self._flows.counts.update(counts)
        self._evidence = self._evidence.with_report(host, flows, self._loop.now_unix_ms())
        self._judge()

    async def gone(self, host: str) -> None:
        """Forget what a host has reported."""
        await self.reported(host, ())

    def _judge(self) -> None:
        """Say which cables are bad, and again when the first of these verdicts ends."""
        now_ms = self._loop.now_unix_ms()
        self._evidence = self._evidence.at(now_ms)
        if self._flows.judge is not None:
            down = self._evidence.down(now_ms)
            self._flows.judge(tuple(denied_cable(cable, hosts) for cable, hosts in sorted(down.items())))
        if self._timer is not None:
            self._timer.cancel()
        wake_ms = self._evidence.wake_ms(now_ms)
        later_s = None if wake_ms is None else max(0.0, (wake_ms - now_ms) / 1000)
        self._timer = None if later_s is None else asyncio.get_running_loop().call_later(later_s, self._judge)


def _flows_named(fabric: Fabric, host: str, pairs: Iterable[QueuePair]) -> tuple[list[FlowPaths], Counter[str]]:
    """Return the flows of a host's own NICs by the cables of their paths, and what was counted."""
    sids, nics = sids_of(fabric), {nic.ip: nic for nic in fabric.nics}
    flows, counts, known = list[FlowPaths](), Counter[str](), dict[tuple[str, str], dict[int, Cables]]()
    for pair in pairs:
        src, dst = nics.get(pair.src_ip), nics.get(pair.dst_ip or 0)
        if sids is None or src is None or dst is None or src.host != host or src.port.switch == dst.port.switch:
            counts["unknown_paths"] += len(pair.paths)
            continue
        ends = src.id, dst.id
        if ends not in known:
            known[ends] = cables_by_sid(fabric, sids, src, dst)
        read = [(known[ends].get(path.sid), path.denied) for path in pair.paths[:MAX_PATHS]]
        denied = tuple(cables for cables, is_denied in read if cables is not None and is_denied)
        active = tuple(cables for cables, is_denied in read if cables is not None and not is_denied)
        counts["denied_paths"] += len(denied)
        counts["unknown_paths"] += len(pair.paths) - len(denied) - len(active)
        flows.append(FlowPaths(denied, active))
    return flows, counts
