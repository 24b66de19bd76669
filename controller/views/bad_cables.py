"""Find the cables between switches that are bad: from the conditions at their ports, and from several sources."""

from collections.abc import Iterable, Iterator
from itertools import chain

from heddle.controller.brain.transactions.bad_cables import MAX_BAD_CABLES
from heddle.controller.model.event import CablesJudged, JudgedCable
from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.telemetry.detection.signal import Signal, SignalKind

_KINDS = (SignalKind.LOSS, SignalKind.SLOW)


def judged_cables(fabric: Fabric, active: Iterable[Signal]) -> CablesJudged:
    """Return the bad cables, the worst first, by the worse of their directions; stale conditions count as last known.

    Shares are rounded, so that a cable that stays as bad as it is stays the same value.
    """
    found: dict[str, list[Signal]] = {}
    for signal in active:
        if signal.kind in _KINDS and (cable := _cable_at(fabric, signal.port)) is not None:
            found.setdefault(cable.id, []).append(signal)
    cables = [_judged(name, signals) for name, signals in found.items()]
    cables.sort(key=lambda each: (-each.loss, each.rate_share, each.cable))
    return CablesJudged(cables=tuple(cables[:MAX_BAD_CABLES]))


def known_conditions(cables: Iterable[JudgedCable]) -> Iterator[tuple[SignalKind, str, float]]:
    """Yield kind, port and value of the conditions that bad cables have had."""
    for cable in cables:
        for port in cable.lossy:
            yield SignalKind.LOSS, port, cable.loss
        for port in cable.slow:
            yield SignalKind.SLOW, port, cable.rate_share


def judged_by_all(sources: Iterable[tuple[JudgedCable, ...]]) -> CablesJudged:
    """Return what all sources say together: of each cable the worse."""
    found: dict[str, JudgedCable] = {}
    for each in chain.from_iterable(sources):
        known = found.get(each.cable)
        found[each.cable] = each if known is None else _worse(known, each)
    cables = sorted(found.values(), key=lambda each: (-each.loss, each.rate_share, each.cable))
    return CablesJudged(cables=tuple(cables[:MAX_BAD_CABLES]))


def _worse(one: JudgedCable, other: JudgedCable) -> JudgedCable:
    return JudgedCable(
        cable=one.cable,
        loss=max(one.loss, other.loss),
        rate_share=min(one.rate_share, other.rate_share),
        ports=_union(one.ports, other.ports),
        lossy=_union(one.lossy, other.lossy),
        slow=_union(one.slow, other.slow),
        probed=_union(one.probed, other.probed),
        denied_by=_union(one.denied_by, other.denied_by),
    )


def _union(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other}))


def _judged(name: str, signals: list[Signal]) -> JudgedCable:
    lossy, slow = (tuple(sorted({each.port for each in signals if each.kind is kind})) for kind in _KINDS)
    return JudgedCable(
        cable=name,
        loss=max((float(f"{each.value:.0e}") for each in signals if each.kind is SignalKind.LOSS), default=0.0),
        rate_share=min((round(each.value, 2) for each in signals if each.kind is SignalKind.SLOW), default=1.0),
        ports=tuple(sorted({*lossy, *slow})), lossy=lossy, slow=slow,
    )  # fmt: skip


def _cable_at(fabric: Fabric, port: str) -> Cable | None:
    switch, colon, number = port.rpartition(":")
    return fabric.cable_by_port.get(PortRef(switch, int(number))) if colon else None
