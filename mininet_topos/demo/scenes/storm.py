"""A NIC sends pause without end."""

import random
import time
from collections.abc import Sequence

from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.demo.results.judgement import Check
from heddle.mininet_topos.demo.scenes.script import ACT_S, PAYLOAD_PART
from heddle.mininet_topos.demo.scenes.verdict import all_led, at_rate, on_exact_links
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.traffic.cast import Act, Cast, Decision, UnfitFabricError, paced, send_recv
from heddle.mininet_topos.traffic.stage import Played, Stage
from heddle.mininet_topos.traffic.workloads import Workload, compute_nics, derangement
from heddle.v1 import heddle_pb2 as pb

QUARANTINE_MS = 2_000
IN_QUARANTINE = "in quarantine: "
DRAWS = 100
PAUSED_PERIODS = 20


class Storm:
    """All NICs but the last send to two others each; the last one pauses its switch port. The others are bystanders."""

    kind = "storm"
    title = "A NIC sends pause without end"
    watched = "the bystanders, the flows to other NICs"
    needs_telemetry = True
    loses_packets = True

    def __init__(self, fabric: Fabric, seed: int) -> None:
        """Draw the flows by this seed."""
        self._fabric, self._seed = fabric, seed
        self._nic = compute_nics(fabric)[-1]
        self._has_stormed = False

    def planned(self, stage: Stage) -> Cast:
        """Submit the flows."""
        if self._has_stormed:  # the scene is repeated: the NIC is in quarantine for a while
            time.sleep(1.5 * QUARANTINE_MS / 1e3)
        plan = stage.submit(self._job())
        return self._cast(stage, stage.planned(plan), (plan,))

    def hashed(self, stage: Stage) -> Cast:
        """Return the flows on hashed paths."""
        return self._cast(stage, stage.hashed(self._job()), ())

    def _cast(self, stage: Stage, requests: list[FlowRequest], followed: tuple[pb.JobPlan, ...]) -> Cast:
        bystanders = frozenset(one.flow_id for one in requests if one.dst_nic != self._nic.id)
        act = Act(ACT_S, f"{self._nic.id} begins to pause its switch", lambda: self._storm(stage, True), in_run=True)

        def decided(decisions: Sequence[Decision]) -> bool:
            return not followed or any(one.text.startswith(IN_QUARANTINE) for one in decisions)

        return Cast(requests=requests, watched=bystanders, followed=followed, acts=(act,), decided=decided)

    def _storm(self, stage: Stage, running: bool) -> None:
        stage.lab.storm_from(self._nic.id, self._nic.traffic_class.priority, running)
        self._has_stormed = True

    def _job(self) -> Workload:
        """Return two permutations without a common flow, less the flows of the NIC that storms."""
        nics = compute_nics(self._fabric)
        if len(nics) < 4:
            raise UnfitFabricError("four NICs are needed")
        draw = random.Random(f"storm/{self._seed}")
        first = derangement(nics, draw)
        for _ in range(DRAWS):
            second = derangement(nics, draw)
            if all(a != b for a, b in zip(first, second, strict=True)):
                break
        else:
            raise UnfitFabricError("no two permutations without a common flow were found")
        pairs = [(src, dst) for targets in (first, second) for src, dst in enumerate(targets) if src < len(nics) - 1]
        return send_recv("storm", nics, pairs)

    def checks(self, played: Played) -> tuple[Check, ...]:
        """Return whether this NIC alone is in quarantine, and the bystanders are back at the rates they had before."""
        notes = [one for one in played.decisions if one.text.startswith(IN_QUARANTINE)]
        when = f" after {notes[0].at_ns / 1e9 - ACT_S:.2f} s" if notes else ""
        named = sorted({one.subject for one in notes})
        before = [flow for plan in played.cast.followed for flow in plan.flows]
        rate_bps = sum(paced(flow) for flow in before if flow.flow_id in played.cast.watched) * PAYLOAD_PART
        return (
            Check(
                text=f"in quarantine{when}: {', '.join(named) or 'none'}", holds=named == [self._nic.id], decision=True
            ),
            all_led(played, played.cast.watched),
            at_rate("bystanders at the rates they had", played, played.cast.watched, rate_bps),
            on_exact_links(self._fabric, played),
        )  # fmt: skip

    def caused(self, played: Played) -> bool:
        """Return whether the flows to the NIC have stopped, as they do where it pauses its port."""
        paused = frozenset(one.flow_id for one in played.cast.requests) - played.cast.watched
        return played.goodput_of(paused)[-PAUSED_PERIODS:].count(0) >= PAUSED_PERIODS / 2

    def end(self, stage: Stage) -> None:
        """End the storm."""
        self._storm(stage, False)
