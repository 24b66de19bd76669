"""A hog joins: traffic of no job, on a link that a planned flow uses."""

import time
from collections.abc import Sequence

from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand
from heddle.mininet_topos.demo.results.judgement import Check
from heddle.mininet_topos.demo.results.scenes import PERIOD_NS
from heddle.mininet_topos.demo.results.values import is_switch_link
from heddle.mininet_topos.demo.scenes.script import ACT_S, PAYLOAD_PART
from heddle.mininet_topos.demo.scenes.verdict import (
    all_led,
    at_rate,
    on_exact_links,
    planned_goodput_bps,
    replanned,
    resent_packets,
)
from heddle.mininet_topos.measure.flow_run import FiveTuple, FlowRequest
from heddle.mininet_topos.traffic.cast import Act, Cast, Decision, UnfitFabricError, at_once, workload
from heddle.mininet_topos.traffic.queue_pairs import PORTS
from heddle.mininet_topos.traffic.stage import Played, Stage
from heddle.mininet_topos.traffic.workloads import Workload, compute_nics
from heddle.v1 import heddle_pb2 as pb

JOB_PART, HOG_PART, HOG_QUEUE_PAIRS = 0.6, 0.9, 3
"""What a flow of the job and the hog send, as parts of their NICs' rate: together more than a link."""
PORTS_TRIED = 64
FORGET_S = 1.5
"""The controller forgets a congested port ten periods after its condition has cleared, which takes five."""
NAMED = "NICs that send more than planned: "
CONGESTED = "congested"
FILLED, FILLED_PERIODS = 0.9, 10
"""The hog has caused congestion if it and the flow have filled this part of the link for half a second."""


class Hog:
    """The job is a ring over one NIC of each leaf; the hog sends from the first leaf to the second, over its path."""

    kind = "hog"
    title = "A hog joins that no job has planned"
    watched = "the job's flow on the hog's path"
    needs_telemetry = True
    loses_packets = False

    def __init__(self, fabric: Fabric, seed: int) -> None:
        """Draw nothing: the seed is for the ports of hashed flows alone."""
        self._fabric = fabric
        self._of_leaf: dict[str, list[Nic]] = {}
        self._hog_ids: frozenset[str] = frozenset()
        for nic in compute_nics(fabric):
            self._of_leaf.setdefault(nic.port.switch, []).append(nic)

    def planned(self, stage: Stage) -> Cast:
        """Submit the job."""
        self._check_fabric()
        plan = stage.submit(self._job)
        return self._cast(stage, stage.planned(plan), (plan,))

    def hashed(self, stage: Stage) -> Cast:
        """Return the job on hashed paths, and a hog that meets its first flow there."""
        self._check_fabric()
        return self._cast(stage, stage.hashed(self._job), ())

    def _cast(self, stage: Stage, requests: list[FlowRequest], followed: tuple[pb.JobPlan, ...]) -> Cast:
        victim = next(one for one in requests if one.src_nic == self._nics[0].id)
        hogs = self._hogs(stage, stage.lab.path_of(stage.lab.stream_of(victim)))
        act = Act(ACT_S, f"{self._sender.id} begins to send to {self._receiver.id}, planned by no job")
        watched, self._hog_ids = frozenset({victim.flow_id}), frozenset(one.flow_id for one in hogs)

        def decided(decisions: Sequence[Decision]) -> bool:
            return bool(self._naming(decisions)) and bool(replanned(followed, decisions, CONGESTED, watched))

        return Cast(
            requests=[*requests, *hogs], watched=watched, followed=followed, acts=(act,),
            decided=decided if followed else at_once,
        )  # fmt: skip

    def _hogs(self, stage: Stage, path: Sequence[str]) -> list[FlowRequest]:
        """Return the hog's queue pairs, from source ports whose path shares all links between switches with `path`."""
        rate_bps = int(self._sender.capacity_bps * HOG_PART) // HOG_QUEUE_PAIRS
        shared = {link for link in path if is_switch_link(link)}
        found: list[FlowRequest] = []
        for port in PORTS[:PORTS_TRIED]:
            if shared <= set(stage.lab.path_of(FiveTuple(self._sender.ip, self._receiver.ip, port))):
                found.append(self._hog(port, rate_bps, stage.longest_s))
            if len(found) == HOG_QUEUE_PAIRS:
                return found
        raise UnfitFabricError("no port of the hog takes the path of the job's flow")

    def _hog(self, port: int, rate_bps: int, seconds: float) -> FlowRequest:
        return FlowRequest(
            flow_id=f"hog/{port}",
            src_nic=self._sender.id,
            dst_nic=self._receiver.id,
            udp_source_port=port,
            reverse_udp_source_port=port,
            rate_bps=rate_bps,
            size_bytes=int(rate_bps * seconds / 8),
            start_offset_ns=int(ACT_S * 1e9),
        )

    @property
    def _nics(self) -> list[Nic]:
        return [nics[0] for nics in self._of_leaf.values()]

    @property
    def _job(self) -> Workload:
        nics = self._nics
        rate_bps = int(min(nic.capacity_bps for nic in nics) * JOB_PART)
        pairs = [(rank, (rank + 1) % len(nics)) for rank in range(len(nics))]
        flows = tuple(FlowDemand(src_rank=src, dst_rank=dst, rate_bps=rate_bps) for src, dst in pairs)
        collective = Collective(kind=CollectiveKind.CUSTOM, size_bytes=10**7, flows=flows)
        return workload("hog", nics, collective, [(src, dst, rate_bps) for src, dst in pairs])

    @property
    def _sender(self) -> Nic:
        return next(iter(self._of_leaf.values()))[1]

    @property
    def _receiver(self) -> Nic:
        return list(self._of_leaf.values())[1][1]

    def _check_fabric(self) -> None:
        """Raise UnfitFabricError unless the hog has NICs, overloads a link, and leaves another path."""
        leaves = list(self._of_leaf)[:2]
        if len(leaves) < 2 or any(len(self._of_leaf[leaf]) < 2 for leaf in leaves):
            raise UnfitFabricError("two leaves with two NICs each are needed")
        uplinks = self._fabric.up_choices[leaves[0]]
        if len(uplinks) < 2:
            raise UnfitFabricError("a leaf with two uplinks is needed")
        offered = self._job.flows[0].rate_bps + self._sender.capacity_bps * HOG_PART
        if offered <= 1.1 * max(cable.capacity_bps for cable in uplinks):
            raise UnfitFabricError("a link is too fast for one NIC to congest it")

    def checks(self, played: Played) -> tuple[Check, ...]:
        """Return whether the hog, and it alone, is named, and the job's flow moved without loss and is at its rate."""
        naming = self._naming(played.decisions)
        notes = [*naming, *(one for one in played.decisions if NAMED in one.text)]
        named = _named(notes[0]) if notes else "none"
        when = f" after {notes[0].at_ns / 1e9 - ACT_S:.2f} s" if notes else ""
        alone = bool(naming) and not any(nic.id in _named(note) for note in notes for nic in self._nics)
        left = replanned(played.cast.followed, played.decisions, CONGESTED, played.cast.watched)
        resent = resent_packets(played)
        rate_bps = planned_goodput_bps(played, played.cast.watched)
        return (
            Check(text=f"named as sending more than planned{when}: {named}", holds=alone, decision=True),
            Check(text=f"{len(left)} of 1 flow has left the congested link", holds=bool(left), decision=True),
            all_led(played, frozenset(played.plans)),
            Check(text=f"{resent} packets sent again by the move", holds=not resent),
            at_rate("the flow is at its rate", played, played.cast.watched, rate_bps),
            on_exact_links(self._fabric, played),
        )

    def _naming(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Return the notes that name the hog."""
        return [one for one in decisions if NAMED in one.text and self._sender.id in _named(one)]

    def caused(self, played: Played) -> bool:
        """Return whether the hog, with the flow, has filled the link for a while, as far as they arrived."""
        goodput = played.goodput_of(played.cast.watched | self._hog_ids)[int(ACT_S * 1e9) // PERIOD_NS :]
        full_bps = FILLED * self._sender.capacity_bps * PAYLOAD_PART
        spans = (goodput[first : first + FILLED_PERIODS] for first in range(len(goodput) - FILLED_PERIODS + 1))
        return any(sum(span) / FILLED_PERIODS >= full_bps for span in spans)

    def end(self, stage: Stage) -> None:
        """Wait until the controller no longer counts the hog's traffic as load of its links."""
        if stage.mode == "planned":
            time.sleep(FORGET_S)


def _named(note: Decision) -> str:
    """Return the part of a note that names NICs."""
    return note.text.partition(NAMED)[2]
