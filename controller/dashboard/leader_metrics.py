"""Metrics of one of several controllers, and the page of one that waits: it has no state of the fabric to show."""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from heddle.controller.dashboard.exposition import Family, lines
from heddle.controller.dashboard.http import Page
from heddle.controller.dashboard.routes import error_response
from heddle.controller.runtime.leadership import ClusterCounts, Leadership

LEADER = Family(
    "heddle_leader", "gauge", "1 on the controller that leads, 0 on one that waits; absent where it is alone."
)
SINCE = Family("heddle_leader_seconds", "gauge", "Time since this controller began to lead, or to wait.")
TAKEOVERS = Family("heddle_leader_takeovers_total", "counter", "How often this controller began to lead.")
REFUSED = Family(
    "heddle_leader_refused_writes_total", "counter", "Writes that etcd refused because this controller no longer leads."
)
CALLS = Family("heddle_etcd_calls_total", "counter", "Calls that etcd replied to.")
SECONDS = Family("heddle_etcd_call_seconds_total", "counter", "Time until these replies.")
FAILED = Family("heddle_etcd_failed_calls_total", "counter", "Calls that no member replied to in time.")
UNFIT = Family(
    "heddle_leader_unfit",
    "gauge",
    "1 on a controller that does not stand for election: its fabric file does not fit, or etcd is not the one with its "
    "journal.",
)
FAMILIES = (LEADER, SINCE, TAKEOVERS, REFUSED, CALLS, SECONDS, FAILED, UNFIT)
WHILE_WAITING = ("/metrics", "/healthz")


class Cluster(NamedTuple):
    """What a controller of several knows of its part."""

    leadership: Leadership
    counts: ClusterCounts


def cluster_lines(cluster: Cluster) -> Iterator[str]:
    """Yield the metrics."""
    leadership, counts = cluster
    values = (
        int(leadership.may_act()), (leadership.now_ns() - leadership.since_ns) / 1e9, counts.takeovers,
        counts.refused_writes, counts.etcd_calls, counts.etcd_s, counts.etcd_failed,
        int(bool(leadership.why_unfit)),
    )  # fmt: skip
    for family, value in zip(FAMILIES, values, strict=True):
        yield from lines(family, [("", value)])


def health_page(leadership: Leadership) -> Page:
    """Return the health check; a controller that does not stand for election says why, with 503 if none leads."""
    if not leadership.why_unfit or leadership.may_act():
        return Page("text/plain", "ok\n")
    status = HTTPStatus.OK if leadership.leader else HTTPStatus.SERVICE_UNAVAILABLE
    leads = f"{leadership.leader} leads" if leadership.leader else "no leader is known"
    return Page("text/plain", f"{leads}, and this controller does not stand: {leadership.why_unfit}\n", status)


def while_waiting(application: ASGIApp, leadership: Leadership) -> ASGIApp:
    """Return an application that serves metrics and health alone until this controller leads."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        served: Callable[..., object] = application
        if not leadership.may_act() and Request(scope).url.path not in WHILE_WAITING:
            served = error_response(503, str(leadership.refusal()))
        await served(scope, receive, send)  # type: ignore[misc]

    return serve
