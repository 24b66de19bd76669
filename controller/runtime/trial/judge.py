"""Judge whether a fabric may follow the one in force, and what that changes; pure."""

from dataclasses import replace

from heddle.controller.model.fabric import Fabric, SteeredBy
from heddle.controller.model.steering import layout_of
from heddle.controller.runtime.journal.fitting import Key, as_in_file
from heddle.controller.runtime.journal.foresight import Running, foreseen, why_unfit
from heddle.controller.runtime.trial.wire import Checked, Judged


def judged(running: Running, fabric: Fabric) -> Judged:
    """Return what another fabric changes; refused is also what a start with its file would take."""
    gone = _gone(running, fabric)
    found = foreseen(running, fabric, gone)
    refusal = _why_not(running, fabric) or found.refusal
    return Judged(replace(found, refusal=refusal), gone, as_in_file(running.fabric) == fabric)


def checked(running: Running, fabric: Fabric) -> Checked:
    """Return whether another fabric may follow, as `judged` does, without what it changes."""
    gone = _gone(running, fabric)
    return Checked(_why_not(running, fabric) or why_unfit(running, fabric, gone), gone)


def with_layout_in_force(running: Running, fabric: Fabric) -> Fabric:
    """Return a fabric whose ports mean what they mean for jobs that run."""
    if not running.jobs or fabric.steered_by is not SteeredBy.OPENFLOW:
        return fabric
    return replace(fabric, port_layout=layout_of(running.fabric))


def _why_not(running: Running, fabric: Fabric) -> str:
    """Return why a fabric cannot follow that in force, "" where it can: what is gone is to be drained before."""
    before, idle = running.fabric, running.out_of_use
    if fabric.name != before.name or fabric.steered_by is not before.steered_by:
        return "fabric: name and steering of the fabric in force stay; start another controller"
    for cable in before.cables:
        is_idle = not idle.down_switches.isdisjoint((cable.lower.switch, cable.upper.switch))
        is_idle = is_idle or not idle.down_cables.isdisjoint((cable.up_link, cable.down_link))
        if cable.up_link not in fabric.cable_by_link and not is_idle:
            for end in (cable.lower.switch, cable.upper.switch):
                if end not in fabric.switch_by_id:
                    return f"switch {end} is in use: `heddle drain {end}` first, then leave it out"
            return f"cable {cable.id} is in use: `heddle drain '{cable.up_link}'` first, then leave it out"
    return ""


def _gone(running: Running, fabric: Fabric) -> frozenset[Key]:
    """Return the keys of drains, and of ports that are down, that a fabric has no part for."""
    switches = fabric.switch_by_id
    known = (switches, fabric.cable_by_link, fabric.nic_by_id)
    drains = (name for name in running.drained if not any(name in parts for parts in known))
    ports = (port for port in running.down_ports if port.switch not in switches)
    return frozenset((*(("drain", name) for name in drains), *(("port", str(port)) for port in ports)))
