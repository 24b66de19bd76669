"""Build the topology message from a state."""

from heddle.controller.brain.state import State
from heddle.controller.brain.transactions.bad_cables import explained
from heddle.controller.model.address import ip_text, ipv6_text
from heddle.controller.model.cabling import Cabling
from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.found_cabling import as_found
from heddle.controller.model.srv6 import Sids, prefix_text, sids_of
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.views.cabling import CableMark, cable_marks
from heddle.controller.views.link_states import link_states, planned_utilisation
from heddle.controller.views.measured import link_utilisation
from heddle.controller.views.switch_faults import fault_of
from heddle.foundation.address import mac_text
from heddle.telemetry.detection.window import Snapshot
from heddle.v1 import heddle_pb2 as pb


def topology_to(state: State, snapshot: Snapshot | None = None, hidden: frozenset[str] = frozenset()) -> pb.Topology:
    """Return the fabric as a message, with measured utilisation where there is a snapshot; without `hidden` NICs."""
    fabric = state.fabric
    found = pb.Topology(
        generation=state.topology_generation,
        hashes=not traits_of(fabric).has_sessions,
        switches=[
            pb.Switch(
                id=switch.id,
                role=switch.role.value,
                datapath_id=switch.datapath_id,
                connected=state.switches[switch.id].connected,
                drained=switch.id in state.drained,
                rules=_held(state, switch.id),
                fault=fault_of(state, switch.id),
            )
            for switch in fabric.switches
        ],
        links=[
            link for link in _links(state, names_nics=not hidden) if link.src not in hidden and link.dst not in hidden
        ],
        nics=[_nic(nic) for nic in fabric.nics if nic.id not in hidden],
    )
    if not hidden:
        _add_miscablings(found, state.cabling)
    if (sids := sids_of(fabric)) is not None:
        _add_sids(found, fabric, sids)
    if snapshot is not None:
        _add_measured(found, link_utilisation(fabric, snapshot))
    return found


def _add_miscablings(topology: pb.Topology, cabling: Cabling) -> None:
    """Name the causes; they may name NICs, so that only those who see all NICs get them."""
    for cause in cabling.verdict.causes:
        topology.miscablings.add(kind=cause.kind, text=cause.text, cables=cause.cables)
    topology.wrong_in_use.extend(cabling.conditions[len(cabling.verdict.causes) :])


def _add_sids(topology: pb.Topology, fabric: Fabric, sids: Sids) -> None:
    """Name what switches hold and NICs write where packets name their paths."""
    sends = {
        str(entry.port): sids.prefix(entry.usid, each.id)
        for each in fabric.switches
        for entry in sids.entries(each.id)
        if entry.port
    }
    for switch in topology.switches:
        switch.srv6_locator = prefix_text(sids.locator(switch.id))
    for link in topology.links:
        if (prefix := sends.get(link.src)) is not None:
            link.srv6_sid = prefix_text(prefix)
    for nic in topology.nics:
        nic.srv6_source = ipv6_text(sids.source(fabric.nic_by_id[nic.id]))


def _add_measured(topology: pb.Topology, utilisation: dict[str, float]) -> None:
    for link in topology.links:
        if (measured := utilisation.get(link.id)) is not None:
            link.measured_utilisation, link.measured = measured, True


def _held(state: State, switch: str) -> int:
    """Return the number of rules a switch holds; 0 while unknown."""
    installed = state.switches[switch].installed
    return len(installed.rules) if installed else 0


def _links(state: State, *, names_nics: bool) -> list[pb.Link]:
    states = link_states(state)
    columns = (states.up.tolist(), states.drained.tolist(), planned_utilisation(state).tolist())
    heard = {str(port): str(peer) for port, peer in state.cabling.heard.items() if names_nics or not peer.nic}
    cables = state.fabric.cable_by_link
    elsewhere = {way for name in as_found(state.fabric) for way in (name, cables[name].down_link)}
    left_out = {way for cable in state.cabling.verdict.left_out for way in (cable, cables[cable].down_link)}
    found = [
        pb.Link(
            **link._asdict(), up=up, drained=drained, planned_utilisation=planned, cabling=_WORDS[mark],
            heard=heard.get(link.src, ""), left_out=link.id in left_out,
            as_found=link.id in elsewhere,
        )
        for link, up, drained, planned, mark in zip(
            state.fabric.directed_links, *columns, cable_marks(state), strict=True
        )
    ]  # fmt: skip
    degraded = state.degraded
    for link in found if state.bad_cables else ():
        cable = cables.get(link.id)
        if cable is not None and (bad := state.bad_cables.get(cable.id)) is not None:
            link.left_bps, link.fault = degraded.get(cable.id, 0), explained(bad)
    return found


_WORDS = {mark: "" if mark is CableMark.AS_DESCRIBED else mark.name.lower() for mark in CableMark}


def _nic(nic: Nic) -> pb.Nic:
    return pb.Nic(
        id=nic.id,
        host=nic.host,
        ip=ip_text(nic.ip),
        mac=mac_text(nic.mac),
        leaf_port=str(nic.port),
        capacity_bps=nic.capacity_bps,
        rail=nic.rail,
        network=nic.network,
        nvlink_domain=nic.nvlink_domain,
        of=nic.of,
        plane=nic.plane,
        paths_per_flow=nic.paths_per_flow,
    )
