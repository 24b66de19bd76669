"""The controller itself: sessions, rules, installation times, the lag of its event loop."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import version

from heddle.controller.brain.state import State, SwitchState, wanted
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.shapes.site import (
    HttpCounts,
    InstallTimes,
    LoopLag,
    ProbeAgents,
    SwitchHealth,
)
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.rules.diff import diff
from heddle.controller.views.switch_faults import fault_of

MAX_MISSING = 20


def health_document(
    moment: Moment, since_ms: Mapping[str, int], lags_ms: Sequence[float], http: HttpCounts, probing: Collection[str]
) -> Mapping[str, object]:
    """Return the controller's health (`HealthDocument`); `since_ms`: of each switch's session or its end.

    `probing` are the hosts whose probe agents are attached.
    """
    state = moment.state
    return {
        "version": version("heddle"),
        "leader": True,
        "uptime_ms": max(0, moment.now_unix_ms - (state.started_unix_ms or moment.now_unix_ms)),
        "switches": _switches(state, since_ms),
        "probe_agents": _probe_agents(state.fabric, probing),
        "telemetry": moment.telemetry(moment.age_ms),
        "install_ms": _install_ms(state),
        "loop_lag_ms": lag_document(lags_ms),
        "http": http,
    }


def lag_document(lags_ms: Sequence[float]) -> LoopLag:
    """Return the quantiles of the loop's lag."""
    ordered = sorted(lags_ms)
    return {"p50": _quantile(ordered, 0.5), "p99": _quantile(ordered, 0.99), "max": _quantile(ordered, 1.0)}


def _switches(state: State, since_ms: Mapping[str, int]) -> Iterator[SwitchHealth]:
    has_sessions = traits_of(state.fabric).has_sessions
    for switch in state.fabric.switches:
        now = state.switches[switch.id]
        yield {
            "id": switch.id,
            "connected": now.connected if has_sessions else None,
            "since_ms": since_ms.get(switch.id),
            "rules": len(now.installed.rules) if now.installed is not None else 0,
            "rule_limit": switch.rule_budget,
            "installed_equals_wanted": _is_installed(state, switch.id, now),
            "fault": fault_of(state, switch.id),
        }


def _is_installed(state: State, switch: str, now: SwitchState) -> bool | None:
    if not now.connected or now.installed is None:
        return None
    return switch not in state.dirty or not diff(now.installed, wanted(state, switch))


def _probe_agents(fabric: Fabric, attached: Collection[str]) -> ProbeAgents | None:
    if not traits_of(fabric).is_probed:
        return None
    hosts = dict.fromkeys(nic.host for nic in fabric.nics)
    missing = [host for host in hosts if host not in attached]
    return {"attached": len(hosts) - len(missing), "expected": len(hosts), "missing": missing[:MAX_MISSING]}


def _install_ms(state: State) -> InstallTimes:
    times = sorted(job.effort.install_ns / 1e6 for job in state.jobs.values() if job.effort.install_ns)
    return {"p50": _quantile(times, 0.5), "p99": _quantile(times, 0.99), "count": len(times)}


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value that a share of the ordered values does not pass; None of none."""
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) if ordered else None
