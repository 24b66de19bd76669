"""Which NICs reach each other, by exhaustive search over the paths that the contract admits."""


def reachable_pairs(fabric, health):
    """Return {(nic id, nic id)} joined by an admissible path, a NIC with itself left out."""
    up, down = {}, {}
    for cable in fabric.cables:
        ends = {cable.lower.switch, cable.upper.switch}
        if cable.id not in health.down_cables and not ends & health.down_switches:
            up.setdefault(cable.lower.switch, set()).add(cable.upper.switch)
            down.setdefault(cable.upper.switch, set()).add(cable.lower.switch)
    alive = [n for n in fabric.nics if n.id not in health.down_nics and n.port.switch not in health.down_switches]
    leaves_from = {leaf: _walk(leaf, up, down) for leaf in {nic.port.switch for nic in alive}}
    return {
        (one.id, other.id)
        for one in alive
        for other in alive
        if one.id != other.id and other.port.switch in leaves_from[one.port.switch]
    }


def _walk(leaf, up, down):
    seen, todo = set(), [(leaf, True)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        switch, climbing = state
        if climbing:
            todo += [(above, True) for above in up.get(switch, ())]
        todo += [(below, False) for below in down.get(switch, ())]
    return {switch for switch, _ in seen}
