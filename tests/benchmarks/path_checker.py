"""Check that lists of links are valid paths of a fabric, without code of the planners under test."""

TIER = {"LEAF": 0, "AGG": 1, "SPINE": 2, "CORE": 2}


def path_faults(fabric, health, ends, paths):
    """Return the faults of paths between NICs: (source, destination) ids and switch-to-switch link ids."""
    tier = {switch.id: TIER[switch.role.name] for switch in fabric.switches}
    links = {}
    for cable in fabric.cables:
        low, high = cable.lower.switch, cable.upper.switch
        dead = cable.id in health.down_cables or {low, high} & health.down_switches
        links[cable.up_link], links[cable.down_link] = (low, high, dead), (high, low, dead)
    leaf = {nic.id: nic.port.switch for nic in fabric.nics}
    faults = []
    for (source, target), path in zip(ends, paths, strict=True):
        at, highest, seen = leaf[source], 0, [leaf[source]]
        for link in path:
            start, end, dead = links[link]
            if start != at:
                faults.append(f"{source} to {target}: {link} does not begin at {at}")
            if dead:
                faults.append(f"{source} to {target}: {link} is dead")
            if tier[end] > tier[start] and highest < 0:
                faults.append(f"{source} to {target}: {link} climbs again")
            highest = -1 if tier[end] < tier[start] else highest
            at = end
            seen.append(end)
        if at != leaf[target]:
            faults.append(f"{source} to {target}: ends at {at}")
        if len(set(seen)) < len(seen):
            faults.append(f"{source} to {target}: visits a switch twice")
    return faults
