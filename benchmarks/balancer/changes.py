"""Change a balancer's back ends under real traffic, kill one of two balancers, flood it, and let back ends die."""

import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.balancer_trials import Wrk, churn, end_flood, out_after_s, start_flood, wrk_result
from tests.support.processes.balancer_processes import ENDS, FALL, GATEWAY, INTERVAL_MS, TIMEOUT_MS, Running, Site

CHURN_S, KILLED_S, FLOOD_S, FLOOD_RATE, SOURCES, DEATHS = 60.0, 12.0, 20.0, 50_000, 500_000, 10
SERVICES = {80: "direct return", 443: "full NAT"}
DISCARDED = "02:00:00:00:00:99"
"""No host's MAC: the switch sends these frames to all ports, and every host discards them."""
LIMIT_MS = FALL * INTERVAL_MS + TIMEOUT_MS + 100
"""A dead back end has to be out within this time."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Connections of real clients while something happened to the balancer."""

    what: str
    service: str
    requests: int
    errors: int
    p99_ms: float
    did: int
    """Changes of back ends, SYNs, downloads that went on."""


@contextmanager
def _site(numbers: tuple[int, ...] = (1,)) -> Iterator[tuple[Site, list[Running]]]:
    """Run a site with one balancer or a pair; all back ends are up."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        site = Site(Path(folder))
        stack.callback(site.close)
        found = []
        for number in numbers:
            found.append(Running(site, Path(folder), "af-xdp", number=number, paired=len(numbers) > 1))
            stack.callback(found[-1].close)
        for each in found:
            each.until_all_are_up()
        yield site, found


def churned(seconds: float = CHURN_S) -> list[Trial]:
    """Change the back ends every second under connections that are kept, and under short ones."""
    with _site() as (site, (running,)):
        kept = {port: site.wrk(seconds, "-c16", port=port) for port in SERVICES}
        short = site.wrk(seconds, "-c2", "-H", "Connection: close")
        changes = churn(running, seconds - 1)
        found = [_trial("back ends change", SERVICES[port], wrk_result(each), changes) for port, each in kept.items()]
        return [*found, _trial("back ends change, short", SERVICES[80], wrk_result(short), changes)]


def killed(seconds: float = KILLED_S) -> list[Trial]:
    """Kill one of two balancers by SIGKILL, after a drained back end has changed what the hash leads to."""
    with _site((1, 2)) as (site, (first, second)):
        first.until(lambda: bool(first.status()["pair"]["partner_has_copy"]))
        kept = {port: site.wrk(seconds, "-c16", "--timeout", "10s", port=port) for port in SERVICES}
        downloads = [_download(site, port) for port in (80, 80, 80, 80, 443, 443, 443)]
        first.until(lambda: first.status()["tables"]["connections_established"]["used"] >= 16 + 32 + 10)
        for each in (first, second):
            each.draining = (ENDS[0],)
            each.reload()
        time.sleep(1)
        os.kill(first.status()["pid"], signal.SIGKILL)
        first.process.kill()
        done = [download.wait(60) for download in downloads].count(0)
        return [_trial("kill -9 of one of two", SERVICES[port], wrk_result(each), done) for port, each in kept.items()]


def flooded(seconds: float = FLOOD_S) -> list[Trial]:
    """Compare connections while SYNs go to no one, which costs the same processors, and while they go to a service."""
    found = []
    with _site() as (site, (running,)):
        outside = site.plugged(GATEWAY)
        for what, mac in (("SYNs to no one", DISCARDED), ("SYNs to the service", site.mac_of_balancer())):
            flood = start_flood(outside, mac, SOURCES, FLOOD_RATE, seconds)
            kept = {port: site.wrk(seconds - 2, "-c16", port=port) for port in SERVICES}
            results = {port: wrk_result(each) for port, each in kept.items()}
            sent = end_flood(flood, seconds)
            found += [_trial(what, SERVICES[port], result, sent) for port, result in results.items()]
        running.until(lambda: (now := running.status())["received"] == now["ended"])
    return found


def deaths(count: int = DEATHS) -> dict[str, list[float]]:
    """Return after how many milliseconds a killed and a hanging back end is out, in order."""
    with _site() as (_, (running,)):
        return {
            name: sorted(1e3 * out_after_s(running, ENDS[n % len(ENDS)], hangs=hangs) for n in range(count))
            for name, hangs in (("killed", False), ("hangs", True))
        }


def median_ms(times: list[float]) -> float:
    return statistics.median(times)


def _trial(what: str, service: str, result: Wrk, did: int) -> Trial:
    return Trial(what, service, result.requests, result.errors, result.p99_ms, did)


def _download(site: Site, port: int) -> "subprocess.Popen[bytes]":
    return site.client.start("curl", "-sS", "--max-time", "60", "--limit-rate", "1M", "-o", "/dev/null",
                             f"http://10.0.0.100:{port}/big")  # fmt: skip
