"""Read what pings that return by themselves show as what ports hear; `model.srv6_pings` says what is sent.

A ping that returns joins both ends of its cable. Where another port is at the far end, that port is joined instead.
Parallel cables are left out: a ping goes out by one and returns by another just as well, whichever two are exchanged.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from heddle.controller.cabling.cause import Cause, CauseKind
from heddle.controller.cabling.diagnosis import Diagnosis, diagnose
from heddle.controller.cabling.heard import Neighbour
from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.controller.model.srv6_pings import Finding


class PingedFrom(NamedTuple):
    """What pings from one NIC have shown: the cables by which they returned, and what is wrong with others."""

    nic: str
    returned: Collection[Cable]
    findings: Collection[Finding]


def diagnose_pings(fabric: Fabric, pings: Iterable[PingedFrom]) -> Diagnosis:
    """Return the causes of what pings have shown; a cable that none explains is a cause of its own."""
    heard, lost = dict[PortRef, Neighbour](), dict[str, Finding]()
    parallel = parallel_cables(fabric)
    for nic, returned, findings in pings:
        joined = [(cable.lower, cable.upper) for cable in returned if cable.id not in parallel]
        joined += [(each.cable.lower, each.instead[0]) for each in findings if len(each.instead) == 1]
        for lower, upper in joined:
            heard |= {lower: _neighbour(upper), upper: _neighbour(lower)}
        if returned:
            heard[fabric.nic_by_id[nic].port] = Neighbour(switch="", port=None, nic=nic)
        lost |= {each.cable.id: each for each in findings}
    return _with_lost(diagnose(fabric, heard), lost)


def parallel_cables(fabric: Fabric) -> frozenset[str]:
    """Return the cables that have another one between the same two switches."""
    between = Counter(_switches(cable) for cable in fabric.cables)
    return frozenset(cable.id for cable in fabric.cables if between[_switches(cable)] > 1)


def _with_lost(diagnosis: Diagnosis, lost: Mapping[str, Finding]) -> Diagnosis:
    """Return a diagnosis with a cause more for each cable that has lost pings and is not wrong by what is heard."""
    more = {name: finding for name, finding in lost.items() if name not in diagnosis.wrong}
    causes = [
        Cause(kind=CauseKind.LOST, text=each.line, cables=(name,), ports=(each.cable.lower, each.cable.upper))
        for name, each in more.items()
    ]
    return replace(
        diagnosis,
        causes=(*diagnosis.causes, *causes),
        wrong=diagnosis.wrong | more.keys(),
        unknown=diagnosis.unknown - more.keys(),
    )


def _neighbour(port: PortRef) -> Neighbour:
    return Neighbour(switch=port.switch, port=port.number)


def _switches(cable: Cable) -> tuple[str, str]:
    return cable.lower.switch, cable.upper.switch
