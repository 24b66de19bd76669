"""Judge the cabling that is heard: which cables are wrong, and which of them plans can do without.

A cable that was left out stays so until it is heard to be right: silence mends nothing. What would cut NICs off, or
take too large a share of all cables, stays in use and is named: a wrong fabric file must not stop the fabric.
"""

from collections.abc import Iterator
from dataclasses import replace

from heddle.controller.cabling.diagnosis import diagnose
from heddle.controller.cabling.heard import Neighbour
from heddle.controller.model.cabling import CablingPolicy, Miscabling, Verdict
from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.effect import Diagnose
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health

MAX_NAMED = 3


def judge(fabric: Fabric, work: Diagnose) -> Verdict:
    """Return the verdict about the heard cabling; takes up to a second for a large fabric."""
    heard = {port: Neighbour(switch=peer.switch, port=peer.port, nic=peer.nic) for port, peer in work.heard.items()}
    cables = fabric.cable_by_port
    dark = frozenset(cables[port].id for port in work.down if port in cables)
    known = dark & (fabric.failed.down_cables | _was_right(fabric, work))
    missing = {port for port in work.down if port in cables and cables[port].id not in known}
    found = diagnose(fabric, heard, (cables.keys() | fabric.nic_by_port.keys()) - missing)
    verdict = Verdict(
        causes=tuple(Miscabling(cause.kind.value, cause.text, cause.cables) for cause in found.causes),
        wrong=found.wrong,
        missing=found.missing,
        unknown=(found.unknown & fabric.cable_by_link.keys()) - dark,
    )
    return _with_exclusions(fabric, work, verdict) if work.policy is CablingPolicy.EXCLUDE else verdict


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
    """Return the verdict with the cables to leave out: all candidates, or as many causes as the fabric can do without.

    Causes of few cables come first: one of many is more likely a wrong file than a wrong plug.
    """
    candidates = (verdict.wrong & fabric.cable_by_link.keys()) | (work.left_out & _silent(fabric, work, verdict))
    limit = len(fabric.cables) * work.max_percent // 100
    if not candidates or _is_harmless(fabric, work.health, candidates, limit):
        return replace(verdict, left_out=candidates)
    left_out, kept = frozenset[str](), list[str]()
    for cables in _groups(verdict, candidates, work.left_out):
        more = left_out | cables
        if _is_harmless(fabric, work.health, more, limit):
            left_out = more
        else:
            kept.append(_kept_text(cables, over=len(more) > limit, percent=work.max_percent))
    return replace(verdict, left_out=left_out, kept=tuple(kept))


def _silent(fabric: Fabric, work: Diagnose, verdict: Verdict) -> frozenset[str]:
    """Return the cables of which no end hears anything."""
    heard = {fabric.cable_by_port[port].id for port in work.heard if port in fabric.cable_by_port}
    return frozenset(work.left_out - heard) | verdict.missing | verdict.unknown


def _groups(verdict: Verdict, candidates: frozenset[str], left_out: frozenset[str]) -> Iterator[frozenset[str]]:
    """Yield the candidates by cause, fewest cables and what is left out already first; those of no cause come last."""
    rest = set(candidates)
    for cause in sorted(verdict.causes, key=lambda cause: (len(cause.cables), not left_out.issuperset(cause.cables))):
        if group := rest.intersection(cause.cables):
            rest -= group
            yield frozenset(group)
    for cable in sorted(rest):
        yield frozenset((cable,))


def _is_harmless(fabric: Fabric, health: Health, cables: frozenset[str], limit: int) -> bool:
    """Return whether a fabric can do without cables: they are few enough, and no NIC is cut off that was not before."""
    if len(cables) > limit:
        return False
    without = health.union(Health(down_cables=cables))
    before = {each.nic for each in cut_off(fabric, health)}
    return all(each.nic in before for each in cut_off(fabric, without))


def _kept_text(cables: frozenset[str], *, over: bool, percent: int) -> str:
    names = sorted(cables)
    named = ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
    share = f"more than {percent} % of all cables would be out of use"
    return f"wrong cables stay in use, as {share if over else 'NICs would be cut off'} without them: {named}"
