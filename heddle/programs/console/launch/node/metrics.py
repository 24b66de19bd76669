"""Prometheus metrics of `heddle ports`: queue pairs by what became of them, and the endpoint that serves them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import NamedTuple

from heddle.controller.dashboard.exposition import CONTENT_TYPE, Family, label_text, lines
from heddle.controller.dashboard.http import HttpServer, Page
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.server_address import address_text, is_address_port, split_address
from heddle.programs.console.launch.node.jobs import NodeJobs
from heddle.programs.console.launch.responder import PortServer

START_TIMEOUT_S = 30.0
QUEUE_PAIRS = Family(
    "heddle_ports_queue_pairs_total",
    "counter",
    "Queue pairs that programs connected: `planned` got a port of their job's plan; `unplanned` are of pairs that the "
    "plan lacks, `unknown` of no planned job, `late` came before the plan was known: these keep their own port.",
    ("outcome",),
)
REFUSED = Family("heddle_ports_refused_requests_total", "counter", "What programs sent that is no request.")
CLOSED = Family(
    "heddle_ports_closed_connections_total", "counter", "Connections of programs that were closed for lack of room."
)
FORGOTTEN = Family("heddle_ports_forgotten_jobs_total", "counter", "Jobs of processes that made room for others.")
JOBS = Family("heddle_ports_jobs", "gauge", "Jobs of this host's processes, by whether their plan is known.", ("plan",))
READS = Family("heddle_ports_reads_plans", "gauge", "1 while the controller replies to requests for plans.")
FAMILIES = (QUEUE_PAIRS, REFUSED, CLOSED, FORGOTTEN, JOBS, READS)


class Outcomes(NamedTuple):
    """Queue pairs by what became of them, in the order of QUEUE_PAIRS."""

    planned: int
    unplanned: int
    unknown: int
    late: int


def outcomes(jobs: NodeJobs, serving: PortServer) -> Outcomes:
    """Return the counts of this moment."""
    return Outcomes(jobs.counts.planned, jobs.counts.unplanned, jobs.counts.unknown, serving.late)


def ports_text(jobs: NodeJobs, serving: PortServer) -> str:
    """Render the counters of a node's agent in the Prometheus text format."""
    planned, others = jobs.known_jobs()
    found = outcomes(jobs, serving)._asdict().items()
    parts = (
        lines(QUEUE_PAIRS, [(label_text(("outcome", outcome)), count) for outcome, count in found]),
        lines(REFUSED, [("", serving.refused)]),
        lines(CLOSED, [("", serving.closed)]),
        lines(FORGOTTEN, [("", jobs.counts.forgotten)]),
        lines(JOBS, [(label_text(("plan", "known")), planned), (label_text(("plan", "none")), others)]),
        lines(READS, [("", int(jobs.reads_plans))]),
    )
    return "".join(piece for part in parts for piece in part)


@contextmanager
def metrics_served(address: str, text: Callable[[], str]) -> Iterator[str]:
    """Serve `/metrics` at ADDR:PORT while the context lasts; yields the address, with its port.

    Raises InputError for what is no address, PrerequisiteError for one that cannot be used.
    """
    if not is_address_port(address):
        raise InputError(f"--metrics: {address!r} is no ADDR:PORT such as 127.0.0.1:9105")

    async def page() -> Page:
        return Page(CONTENT_TYPE, text())

    host, port = split_address(address)
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="metrics", daemon=True)
    thread.start()
    http = HttpServer({"/metrics": page})
    try:
        try:
            bound = asyncio.run_coroutine_threadsafe(http.start(host, port), loop).result(START_TIMEOUT_S)
        except OSError as error:
            raise PrerequisiteError(f"--metrics: {address}: {error.strerror or error}") from None
        yield address_text(host, bound)
    finally:
        asyncio.run_coroutine_threadsafe(http.close(), loop).result(START_TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_TIMEOUT_S)
        loop.close()
