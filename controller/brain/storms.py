"""Quarantine NICs that send pause without end: their leaf drops what is sent to them, until they are well for long.

The switch's own PFC watchdog empties the paused queue (docs/lab-queues.md). The quarantine keeps it empty, takes the
NIC out of use for plans, and notifies its jobs. A port between switches is never quarantined, and at most
MAX_QUARANTINED NICs at a time: more would rather be a fault of what is measured.
"""

from dataclasses import replace

from heddle.controller.brain.install import Outcome, changed_topology
from heddle.controller.brain.state import Quarantine, ReplanWork, State
from heddle.controller.brain.transactions.replan import enqueue_replan
from heddle.controller.model.effect import Effect, Note
from heddle.controller.model.event import Congested
from heddle.controller.model.moves import Cause
from heddle.foundation.backoff import doubled_ms

MAX_QUARANTINED = 2
SAME_EPISODE_MS = 10_000
"""A NIC that is not quarantined is named again when it has not stormed for so long."""


def stormed(state: State, event: Congested, now: int) -> Outcome:
    """Begin and renew quarantines of the NICs that storm, and end those of NICs that have been well long enough."""
    effects: list[Effect] = []
    for nic in event.storms:
        state, more = _quarantined(state, nic, now)
        effects += more
    state, more = ended(state, now)
    return state, (*effects, *more)


def _quarantined(state: State, nic: str, now: int) -> Outcome:
    known = state.quarantines.get(nic)
    if known is not None and known.active:
        return _with(state, nic, replace(known, seen_unix_ms=now)), ()
    active = [name for name, each in state.quarantines.items() if each.active]
    text = "sends pause without end"
    acts = state.settings.acts_on_telemetry and state.settings.quarantine_ms
    if not acts or len(active) >= MAX_QUARANTINED:
        why = f"{len(active)} NICs are in quarantine already" if active else "telemetry raises alarms only"
        if known is not None and known.seen_unix_ms >= now - SAME_EPISODE_MS:
            return _with(state, nic, replace(known, seen_unix_ms=now)), ()
        waits = Quarantine(active=False, episodes=known.episodes if known else 0, seen_unix_ms=now)
        return _with(state, nic, waits), (Note(severity="error", subject=nic, text=f"{text}; no quarantine: {why}"),)
    begun = Quarantine(active=True, episodes=known.episodes + 1 if known else 1, seen_unix_ms=now)
    work = ReplanWork(cause=Cause.FAILURE, reason=f"NIC {nic} in quarantine: it {text}")
    state, changed = changed_topology(enqueue_replan(_with(state, nic, begun), work))
    return state, (Note(severity="error", subject=nic, text=f"in quarantine: {text}"), *changed)


def _with(state: State, nic: str, quarantine: Quarantine) -> State:
    return replace(state, quarantines={**state.quarantines, nic: quarantine})


def ended(state: State, now: int) -> Outcome:
    """Return the NICs to use that have not stormed for the quarantine time, doubled by each earlier episode."""
    effects: list[Effect] = []
    for nic, each in state.quarantines.items():
        if each.active and now >= each.seen_unix_ms + doubled_ms(state.settings.quarantine_ms, each.episodes - 1):
            work = ReplanWork(cause=Cause.RECOVERY, reason=f"NIC {nic} out of quarantine")
            state, changed = changed_topology(enqueue_replan(_with(state, nic, replace(each, active=False)), work))
            effects += [Note(severity="info", subject=nic, text="out of quarantine"), *changed]
    return state, tuple(effects)
