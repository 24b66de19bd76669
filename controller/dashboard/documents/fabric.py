"""The fabric as built: switches in tiers, NICs, directed links."""

from collections.abc import Iterator

from controller.dashboard.documents.shapes import End, Link, Nic, Switch
from controller.model import fabric as model


def fabric_document(fabric: model.Fabric) -> dict[str, object]:
    """Return the document of a fabric (`shapes.Fabric`); its lists are iterators."""
    return {
        "fabric": fabric.name,
        "generation": int(fabric.digest[:12], 16),
        "tiers": len(tiers_of(fabric)),
        "switches": _switches(fabric),
        "nics": _nics(fabric),
        "links": _links(fabric),
    }


def tiers_of(fabric: model.Fabric) -> tuple[int, ...]:
    """Return the tiers that the fabric has, from below: the place of a switch's tier is what the page calls its tier."""
    return tuple(sorted({switch.role.tier for switch in fabric.switches}))


def end_of(name: str) -> End:
    """Return the end of a link under its name: `switch:number`, or the id of a NIC."""
    switch, _, number = name.rpartition(":")
    return {"node": switch, "port": int(number)} if switch else {"node": name, "port": None}


def _switches(fabric: model.Fabric) -> Iterator[Switch]:
    pods, tiers = _pods(fabric), tiers_of(fabric)
    for switch in fabric.switches:
        tier = tiers.index(switch.role.tier)
        yield {"id": switch.id, "tier": tier, "role": switch.role.value, "pod": pods.get(switch.id)}


def _pods(fabric: model.Fabric) -> dict[str, int]:
    """Number the pods of a fabric with a middle tier: the switches below the top that cables of it join."""
    pod: dict[str, int] = {}
    for switch in fabric.switches:
        if switch.role is not model.Role.AGG:
            continue
        below = fabric.leaves_below[switch.id]
        number = min((pod[leaf] for leaf in below if leaf in pod), default=len(set(pod.values())))
        pod[switch.id] = number
        pod.update(dict.fromkeys(below, number))
    return pod


def _nics(fabric: model.Fabric) -> Iterator[Nic]:
    for nic in fabric.nics:
        yield {
            "id": nic.id, "host": nic.host, "switch": nic.port.switch, "port": nic.port.number,
            "rate_bps": nic.capacity_bps,
        }  # fmt: skip


def _links(fabric: model.Fabric) -> Iterator[Link]:
    cables = 2 * len(fabric.cables)
    for number, link in enumerate(fabric.directed_links):
        yield {
            "id": link.id, "from": end_of(link.src), "to": end_of(link.dst), "capacity_bps": link.capacity_bps,
            "kind": "cable" if number < cables else "nic",
        }  # fmt: skip
