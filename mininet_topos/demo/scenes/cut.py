"""A cable is cut under a permutation that uses the whole fabric."""

from collections.abc import Mapping

from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.fabric import Cable, Fabric
from heddle.controller.model.health import Health
from heddle.mininet_topos.demo.results.judgement import Check
from heddle.mininet_topos.demo.scenes.script import ACT_S
from heddle.mininet_topos.demo.scenes.verdict import all_led, at_rate, on_exact_links, planned_goodput_bps
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.traffic.cast import Act, Cast, UnfitFabricError, send_recv
from heddle.mininet_topos.traffic.stage import Played, Stage, plans_after
from heddle.mininet_topos.traffic.workloads import compute_nics, permutation
from heddle.v1 import heddle_pb2 as pb


class Cut:
    """The first cable that a planned flow uses, and without which all NICs still reach each other, is cut."""

    kind = "cut"
    title = "A cable is cut"
    watched = "all flows of a permutation"
    needs_telemetry = False
    loses_packets = True

    def __init__(self, fabric: Fabric, seed: int) -> None:
        """Use the permutation of this seed."""
        nics = compute_nics(fabric)
        pairs = [(flow.src_rank, flow.dst_rank) for flow in permutation(nics, seed, 1.0).flows]
        self._fabric, self._workload = fabric, send_recv("demo-cut", nics, pairs)
        self._cable: Cable | None = None
        self._hit: frozenset[str] = frozenset()

    def planned(self, stage: Stage) -> Cast:
        """Submit the permutation and choose the cable."""
        plan = stage.submit(self._workload)
        used = (one for one in _spare(self._fabric) if any(_crosses(flow, one) for flow in plan.flows))
        self._cable = next(used, None)
        if self._cable is None:
            raise UnfitFabricError("no cable that is used can be spared")
        self._hit = frozenset(flow.flow_id for flow in plan.flows if _crosses(flow, self.cable))
        return self._cast(stage, stage.planned(plan), (plan,))

    def hashed(self, stage: Stage) -> Cast:
        """Return the permutation on hashed paths."""
        return self._cast(stage, stage.hashed(self._workload), ())

    def _cast(self, stage: Stage, requests: list[FlowRequest], followed: tuple[pb.JobPlan, ...]) -> Cast:
        flow_ids = frozenset(one.flow_id for one in requests)
        act = Act(ACT_S, f"cable {self.cable.id} is cut", lambda: self._cut(stage))
        return Cast(
            requests=requests, watched=flow_ids, followed=followed, acts=(act,),
            decided=lambda decisions: not self._on_cable(plans_after(followed, decisions)),
        )  # fmt: skip

    @property
    def cable(self) -> Cable:
        """Return the cable that is cut, once the planned run has chosen it."""
        assert self._cable is not None
        return self._cable

    def _cut(self, stage: Stage) -> None:
        stage.lab.net.set_cable(self.cable.id, up=False)
        if stage.mode == "ecmp":
            stage.lab.ecmp.load(failed={self.cable.id})

    def checks(self, played: Played) -> tuple[Check, ...]:
        """Return whether all flows left the cable, in plan and rules, and are at the new plan's rates."""
        on_cable = self._on_cable(played.plans)
        text = f"{len(self._hit) - len(on_cable)} of {len(self._hit)} flows have left {self.cable.id}"
        hit_bps, rate_bps = (planned_goodput_bps(played, flows) for flows in (self._hit, played.cast.watched))
        return (
            Check(text=text, holds=bool(self._hit) and not on_cable, decision=True),
            all_led(played, played.cast.watched),
            at_rate("these flows at the new plan's rates", played, self._hit, hit_bps),
            at_rate("all flows at the new plan's rates", played, played.cast.watched, rate_bps),
            on_exact_links(self._fabric, played),
        )

    def caused(self, played: Played) -> bool:
        """Return that the cable was cut: no machine is too busy for that."""
        return True

    def _on_cable(self, plans: Mapping[str, pb.FlowPlan]) -> list[str]:
        return [flow.flow_id for flow in plans.values() if _crosses(flow, self.cable)]

    def end(self, stage: Stage) -> None:
        """Connect the cable again."""
        if self._cable is None:
            return
        stage.lab.net.set_cable(self.cable.id, up=True)
        if stage.mode == "ecmp":
            stage.lab.ecmp.load()
        else:
            stage.client.await_links()


def _spare(fabric: Fabric) -> list[Cable]:
    """Return the cables without which no NIC is cut off."""
    return [cable for cable in fabric.cables if not cut_off(fabric, Health(down_cables=frozenset({cable.id})))]


def _crosses(flow: pb.FlowPlan, cable: Cable) -> bool:
    """Return whether a flow or its acknowledgements use a cable."""
    return not {cable.up_link, cable.down_link}.isdisjoint((*flow.links, *flow.reverse_links))
