"""Measure what a balancer costs per byte: the processor time of everything that carries the bytes.

On veth a packet is delivered in the sender's time. So besides the balancer's own time, that of client, servers and
both ksoftirqd is measured, and compared with a transfer without a balancer in between.
"""

import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from heddle.benchmarks.balancer.proxies import Opener, Route, advertise_mss, available
from heddle.benchmarks.gateway.wire.processor import TaskClock, soft_interrupts
from tests.support.balancer_trials import wrk_result
from tests.support.processes.balancer_processes import ENDS, Site

SECONDS, ROUNDS, CONNECTIONS, BODY_BYTES = 2.0, 5, 8, 250_000
FEATURES = ("tx", "rx", "sg", "tso", "gso", "gro")
DOWN, UP = "download", "upload"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a transfer cost; seconds of processor time per GB of the body."""

    route: str
    way: str
    offloads: bool
    gbit_s: float
    own_s: float
    """Of the balancer's processes."""
    whole_s: float
    """Of client, servers, balancer and ksoftirqd."""
    beyond_s: float
    """`whole_s` beyond that of a transfer on the same kind of network without a balancer."""


def costs(
    seconds: float = SECONDS,
    rounds: int = ROUNDS,
    *,
    only: Sequence[str] = (),
    offloads: Sequence[bool] = (False, True),
) -> Iterator[Cost]:
    """Measure all routes in rounds, downloads and uploads; raises RuntimeError if a request fails.

    Args:
        seconds: of each transfer.
        rounds: each row is the median of so many.
        only: keys of `available`; default: all.
        offloads: whether the ports have offloads.
    """
    openers = {name: opener for name, opener in available()[0].items() if not only or name in (*only, "direct")}
    for has_offloads in offloads:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            site = Site(Path(folder))
            stack.callback(site.close)
            _prepare(site)
            found: dict[tuple[str, str], list[Cost]] = {}
            for _ in range(rounds):
                for cost in _round(site, openers, seconds, has_offloads):
                    found.setdefault((cost.route, cost.way), []).append(cost)
        for each in found.values():
            middle = {
                name: statistics.median(getattr(one, name) for one in each)
                for name in ("gbit_s", "own_s", "whole_s", "beyond_s")
            }
            yield replace(each[0], **middle)


def _round(site: Site, openers: Mapping[str, Opener], seconds: float, offloads: bool) -> Iterator[Cost]:
    without: dict[tuple[bool, str], float] = {}
    for name, opener in openers.items():
        set_offloads(site, offloads)
        with opener(site, site.folder) as routes:
            if name.startswith("af-"):
                _switch(site, site.hosts[0], "u0", False)  # our ports take whole packets of the wire only
            for route in routes:
                for way in (DOWN, UP):
                    gbit_s, own_s, whole_s = _transferred(site, route, way, seconds)
                    base = without.setdefault((route.in_vpc, way), whole_s)
                    yield Cost(route.name, way, offloads, gbit_s, own_s, whole_s, whole_s - base)


def _transferred(site: Site, route: Route, way: str, seconds: float) -> tuple[float, float, float]:
    """Transfer for some seconds; return Gbit/s, and processor seconds per GB of the balancer and of all."""
    options = ("-c", str(CONNECTIONS), *(("-s", _upload_script(site)) if way == UP else ()))
    servers = [process.pid for process in site.nginx.values()]
    with ExitStack() as stack:
        own, others = (_clocks(stack, pids) for pids in (route.pids, servers))
        others += _soft(stack)
        before = sum(each() for each in own), sum(each() for each in others), _children_s()
        process = site.wrk(seconds, *options, url=route.url + ("part" if way == DOWN else "in"))
        result = wrk_result(process)
        own_s = (sum(each() for each in own) - before[0]) / 1e9
        others_s = (sum(each() for each in others) - before[1]) / 1e9
        client_s = _children_s() - before[2]
    if result.errors or not result.requests:
        raise RuntimeError(f"{route.name}, {way}: {result.errors} of {result.requests} requests failed")
    gb = result.requests * BODY_BYTES / 1e9
    return gb * 8 / result.seconds, own_s / gb, (own_s + others_s + client_s) / gb


def _clocks(stack: ExitStack, pids: Sequence[int]) -> list[TaskClock]:
    found = []
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found.append(TaskClock(int(thread)))
            stack.callback(found[-1].close)
    return found


def _soft(stack: ExitStack) -> list[TaskClock]:
    threads = [soft_interrupts(cpu) for cpu in range(os.cpu_count() or 1)]
    found = [TaskClock(thread) for thread in threads if thread is not None]
    for each in found:
        stack.callback(each.close)
    return found


def _children_s() -> float:
    """Return the processor time of all children that have ended: wrk, since servers and balancer still run."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _upload_script(site: Site) -> str:
    path = site.folder / "upload.lua"
    path.write_text(f'wrk.method = "POST"\nwrk.body = string.rep("x", {BODY_BYTES})\n')
    return str(path)


def _prepare(site: Site) -> None:
    """Make the file to download, and give all segments one size, in the VPC and on the underlay."""
    for last in ENDS:
        (site.folder / f"nginx{last}" / "part").write_bytes(bytes(BODY_BYTES))
    for space in (site.client, *site.ends.values()):
        advertise_mss(space)


def set_offloads(site: Site, on: bool) -> None:
    """Switch the offloads of all ports of the site."""
    for space in site.spaces:
        for name in ("u0", "p0"):
            if not space.run("ip", "link", "show", name, check=False).returncode:
                _switch(site, space, name, on)
        if not space.run("ip", "link", "show", "vx", check=False).returncode:
            space.run("ethtool", "-K", "vx", *_words(on))


def _words(on: bool) -> list[str]:
    return [word for feature in FEATURES for word in (feature, "on" if on else "off")]


def _switch(site: Site, space: object, name: str, on: bool) -> None:
    """Switch the offloads of one port and of its other end at the switch."""
    port = f"s{site.spaces.index(space) + 1}{name}"  # type: ignore[arg-type]
    for where, which in ((space, name), (site.switch, port)):
        where.run("ethtool", "-K", which, *_words(on))  # type: ignore[attr-defined]
