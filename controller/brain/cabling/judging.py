"""Judge the cabling that is heard: which cables are wrong, and which of them are left out of use.

A cable that was left out stays so until it is heard to be right: silence repairs nothing. The fabric in force may have
cables as they were found: those are right where they are, and the causes still say what differs from the file.
"""

from dataclasses import replace

from heddle.controller.brain.cabling.leaving_out import Spare, chosen
from heddle.controller.cabling.diagnosis import Diagnosis, diagnose
from heddle.controller.cabling.heard import Neighbour
from heddle.controller.model.cabling import CablingPolicy, Miscabling, Verdict
from heddle.controller.model.effect import Diagnose
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.found_cabling import as_described


def judge(fabric: Fabric, work: Diagnose) -> Verdict:
    """Return the verdict about the heard cabling; takes up to a second for a large fabric."""
    heard = {port: Neighbour(switch=peer.switch, port=peer.port, nic=peer.nic) for port, peer in work.heard.items()}
    cables = fabric.cable_by_port
    dark = frozenset(cables[port].id for port in work.down if port in cables)
    known = dark & (fabric.failed.down_cables | _was_right(fabric, work))
    missing = {port for port in work.down if port in cables and cables[port].id not in known}
    up = (cables.keys() | fabric.nic_by_port.keys()) - missing
    found = diagnose(fabric, heard, up)
    verdict = Verdict(
        causes=_causes(found),
        wrong=found.wrong,
        missing=found.missing,
        unknown=(found.unknown & fabric.cable_by_link.keys()) - dark,
        found=found.rejoined if work.policy is CablingPolicy.FOLLOW else (),
    )
    if work.policy is not CablingPolicy.IGNORE:
        verdict = _with_exclusions(fabric, work, verdict)
    if fabric.described:
        verdict = replace(verdict, causes=_causes(diagnose(as_described(fabric), heard, up)))
    return verdict


def _causes(found: Diagnosis) -> tuple[Miscabling, ...]:
    return tuple(Miscabling(cause.kind.value, cause.text, cause.cables) for cause in found.causes)


def _was_right(fabric: Fabric, work: Diagnose) -> frozenset[str]:
    """Return the cables of which an end that is down has heard the other end before."""
    last = {**work.heard, **work.before}
    ends = ((fabric.cable_by_port.get(port), port, last[port]) for port in work.down if port in last)
    return frozenset(
        cable.id
        for cable, port, peer in ends
        if cable is not None and (peer.switch, peer.port) == (cable.upper if port == cable.lower else cable.lower)
    )


def _with_exclusions(fabric: Fabric, work: Diagnose, verdict: Verdict) -> Verdict:
    """Return the verdict with the cables to leave out."""
    candidates = (verdict.wrong & fabric.cable_by_link.keys()) | (work.left_out & _silent(fabric, work, verdict))
    spare = Spare(fabric, work.health, work.max_percent)
    left_out, kept = chosen(verdict.causes, candidates, work.left_out, spare)
    return replace(verdict, left_out=left_out, kept=kept)


def _silent(fabric: Fabric, work: Diagnose, verdict: Verdict) -> frozenset[str]:
    """Return the cables of which no end hears anything."""
    heard = {fabric.cable_by_port[port].id for port in work.heard if port in fabric.cable_by_port}
    return frozenset(work.left_out - heard) | verdict.missing | verdict.unknown
