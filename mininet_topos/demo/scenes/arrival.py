"""A second job arrives that fits only if flows of the first one move."""

import random
from collections.abc import Sequence

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric, Nic
from heddle.mininet_topos.demo.results.judgement import Check
from heddle.mininet_topos.demo.scenes.script import ACT_S
from heddle.mininet_topos.demo.scenes.verdict import (
    all_led,
    at_rate,
    fullest_link,
    on_exact_links,
    planned_goodput_bps,
    replanned,
    resent_packets,
)
from heddle.mininet_topos.traffic.cast import Act, Cast, Decision, UnfitFabricError, send_recv
from heddle.mininet_topos.traffic.stage import Played, Stage
from heddle.mininet_topos.traffic.workloads import Workload, compute_nics, derangement
from heddle.v1 import heddle_pb2 as pb

LEAD_S = 0.5
"""The second job is submitted so long before its flows start, as a scheduler does."""
DRAWS = 30
FITS = 1.0 + 1e-6


class Arrival:
    """Every second NIC of each leaf belongs to the first job, the others to the second; both are permutations."""

    kind = "arrival"
    title = "A second job arrives that fits only if flows move"
    watched = "both jobs"
    needs_telemetry = False
    loses_packets = False

    def __init__(self, fabric: Fabric, seed: int) -> None:
        """Draw the first job by this seed."""
        self._fabric, self._seed = fabric, seed
        self._second: Workload | None = None
        self._unmoved = 0.0
        self._admitted: pb.JobPlan | None = None

    def planned(self, stage: Stage) -> Cast:
        """Submit the first job, and find a second one that without moves would overload a link."""
        first, second = (self._job(number, self._seed) for number in (0, 1))
        plan = stage.submit(first)
        self._first_ids = frozenset(flow.flow_id for flow in plan.flows)
        for draw in range(self._seed, self._seed + DRAWS):
            second = self._job(1, draw)
            unmoved = stage.client.preview(second.job, moves=False).certificate.max_link_utilisation
            preview = stage.client.preview(second.job)
            if unmoved > FITS >= preview.certificate.max_link_utilisation:
                break
        else:
            raise UnfitFabricError("no second job was found that fits only if flows move")
        self._second, self._unmoved, self._admitted = second, unmoved, None
        requests = [*stage.planned(plan), *stage.planned(preview, ACT_S)]
        acts = (
            Act(ACT_S - LEAD_S, "a second job is submitted", lambda: self._submit(stage)),
            Act(ACT_S, "its flows start"),
        )
        flow_ids = frozenset(one.flow_id for one in requests)
        followed = (plan, preview)

        def decided(decisions: Sequence[Decision]) -> bool:
            return self._admitted is not None and bool(replanned(followed, decisions, flow_ids=self._first_ids))

        return Cast(requests=requests, watched=flow_ids, followed=followed, acts=acts, decided=decided)

    def hashed(self, stage: Stage) -> Cast:
        """Return both jobs on hashed paths."""
        assert self._second is not None
        requests = [*stage.hashed(self._job(0, self._seed)), *stage.hashed(self._second, ACT_S)]
        flow_ids = frozenset(one.flow_id for one in requests)
        return Cast(requests=requests, watched=flow_ids, acts=(Act(ACT_S, "the flows of a second job start"),))

    def _submit(self, stage: Stage) -> None:
        assert self._second is not None
        self._admitted = stage.submit(self._second)

    def _job(self, number: int, seed: int) -> Workload:
        nics = _half(self._fabric, number)
        try:
            targets = derangement(nics, random.Random(f"arrival/{number}/{seed}"))
        except InputError:
            raise UnfitFabricError("leaves have too few NICs for two jobs") from None
        return send_recv(f"demo-arrival-{number + 1}", nics, list(enumerate(targets)))

    def checks(self, played: Played) -> tuple[Check, ...]:
        """Return whether the job fits because flows moved, without loss, and both jobs are at their rates."""
        admitted = float("inf") if self._admitted is None else self._admitted.certificate.max_link_utilisation
        load = max(admitted, fullest_link(self._fabric, played))
        left = replanned(played.cast.followed, played.decisions, flow_ids=self._first_ids)
        resent = resent_packets(played)
        fullest = f"the fullest link would be at {self._unmoved:.2f} without moves, and is at {load:.2f}"
        rate_bps = planned_goodput_bps(played, played.cast.watched)
        return (
            Check(text=fullest, holds=self._unmoved > FITS >= load, decision=True),
            Check(text=f"flows of the first job with other paths: {len(left)}", holds=bool(left), decision=True),
            all_led(played, frozenset(played.plans)),
            Check(text=f"{resent} packets sent again by their moves", holds=not resent),
            at_rate("both jobs at their rates", played, played.cast.watched, rate_bps),
            on_exact_links(self._fabric, played),
        )

    def caused(self, played: Played) -> bool:
        """Return that the second job was submitted: no machine is too busy for that."""
        return True

    def end(self, stage: Stage) -> None:
        """Leave the fabric as it is: the jobs are released by the caller."""


def _half(fabric: Fabric, number: int) -> list[Nic]:
    """Return every second compute NIC of each leaf, from the first (0) or the second (1) on."""
    of_leaf: dict[str, list[Nic]] = {}
    for nic in compute_nics(fabric):
        of_leaf.setdefault(nic.port.switch, []).append(nic)
    return [nic for nics in of_leaf.values() for nic in nics[number::2]]
