"""Follow the cabling: have the fabric put in force with its cables as they were found, and back once they are as built.

Wrong cables are left out of use at once; so running flows leave them before their meaning changes. They are followed
once the same was found for a while. That while doubles with each change of the last hour: a plug that flaps has few
lives of the controller. What somebody works on stays as it is: drained cables and those of drained switches. Cables
that running flows still cross would strand these: nothing is done, and a condition says so.
"""

from collections.abc import Iterable
from dataclasses import replace

from heddle.controller.brain.cabling.hearing import changed_conditions
from heddle.controller.brain.install import Outcome, take_token
from heddle.controller.brain.state import State
from heddle.controller.model.cabling import Cabling, CablingPolicy
from heddle.controller.model.effect import Effect, Follow, Note
from heddle.controller.model.event import NotFollowed
from heddle.controller.model.found_cabling import Rejoined

STABLE_MS = 5_000
"""The same is found for so long before it is followed for the first time in an hour."""
MAX_DOUBLINGS = 7
LATELY_MS = 3_600_000
MAX_NAMED = 3


def tick(state: State, now: int) -> Outcome:
    """Begin to follow what was found for long enough, while no transaction runs or waits."""
    cabling = state.cabling
    wanted = cabling.verdict.found if state.settings.cabling is CablingPolicy.FOLLOW else ()
    is_judged = not cabling.stale and cabling.token is None
    if not wanted or not is_judged or cabling.following is not None or state.active is not None or state.queue:
        return state, ()
    lately = followed_lately(cabling, now)
    if now - cabling.found_unix_ms < STABLE_MS << min(len(lately), MAX_DOUBLINGS):
        return state, ()
    crossed = _crossed(state)
    free = [each for each in wanted if not _is_worked_on(state, each)]
    able = tuple(each for each in free if crossed.isdisjoint(each.gone))
    if not able:
        held = [name for each in free for name in each.gone if name in crossed]
        return _unfollowed(state, f"running flows cross {_named(held)}" if held else "", now)
    state, token = take_token(state)
    text = f"plans are to follow the cabling as found: {_named(cable.id for each in able for cable in each.cables)}"
    out = [each for each in able if cabling.verdict.left_out.issuperset(each.gone)]
    joining = frozenset(cable.id for each in out for cable in each.cables)
    cabling = replace(cabling, following=token, followed=(*lately, now), joining=joining)
    effects: tuple[Effect, ...] = (
        Note(severity="warning", subject="cabling", text=text),
        Follow(token=token, found=able),
    )
    return replace(state, cabling=cabling), effects


def followed_lately(cabling: Cabling, now: int) -> tuple[int, ...]:
    """Return when changes of the last hour were begun."""
    return tuple(time for time in cabling.followed if now - LATELY_MS < time <= now)


def not_followed(state: State, event: NotFollowed, now: int) -> Outcome:
    """Say why the fabric was not changed; the next attempt waits twice as long."""
    if state.cabling.following != event.token:
        return state, ()
    cabling = replace(state.cabling, following=None, joining=frozenset())
    return _unfollowed(replace(state, cabling=cabling), event.reason, now)


def _unfollowed(state: State, why: str, now: int) -> Outcome:
    """Raise the condition that the cabling is not followed, cleared without a reason; try again in a while."""
    text = f"the cabling as found is not followed: {why}" if why else ""
    before, after = state.cabling, replace(state.cabling, unfollowed=text, found_unix_ms=now)
    return replace(state, cabling=after), changed_conditions(before, after)


def _is_worked_on(state: State, found: Rejoined) -> bool:
    """Return whether some of the cables, or switches at their ends, are drained, or failed by the fabric file."""
    failed, cables = state.fabric.failed, [state.fabric.cable_by_link[name] for name in found.gone]
    names = {name for each in cables for name in (each.up_link, each.down_link, each.lower.switch, each.upper.switch)}
    return not names.isdisjoint(state.drained | failed.down_cables | failed.down_switches)


def _crossed(state: State) -> frozenset[str]:
    """Return the ids of the cables that running flows or their ACKs cross."""
    cables = state.fabric.cable_by_link
    flows = [job.flows for job in state.jobs.values()]
    links = {link for each in flows for link in (*each.link_loads_bps, *each.reverse_links)}
    return frozenset(cables[link].id for link in links if link in cables)


def _named(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"
