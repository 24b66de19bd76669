"""Kill one gateway of a pair under TCP connections and measure the time without a received byte."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.pair.gateways import Death, Gateways
from tests.support.pair.site import FLOATING, SERVER, Site
from tests.support.pair.streams import Route, Streams

WATCH_S = 2.0
"""Shortest time after a kill in which silences are measured."""
CALM_S = 0.5
MAX_WATCH_S = 60.0
Found = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A pair, and how one of its gateways fails."""

    name: str
    mode: str
    death: Death
    vteps_of: Mapping[str, Sequence[str]]
    """By host, the gateways that it sends to."""
    kills: int = 10


ONE = {"host1": ("gw1",), "host2": ("gw1",)}
EACH = {"host1": ("gw1",), "host2": ("gw2",)}


def routes(site: Site) -> list[Route]:
    """Return the connections: NAT from tenants with equal addresses, a floating IP, and peered VPCs."""
    pid = site.pid
    nat = ("red1", "red1", "red1", "blue1", "green1")
    return [
        *(Route(name=f"{name} by NAT {n}", client=pid(name), server=pid("internet"), address=str(SERVER), port=7001 + n)
          for n, name in enumerate(nat)),
        Route(name="floating IP", client=pid("internet"), server=pid("red2"), address=str(FLOATING), port=7020),
        Route(name="peers", client=pid("red1"), server=pid("green1"), address="10.9.0.1", port=7030),
    ]  # fmt: skip


@contextmanager
def running(plan: Plan, folder: Path, **partner: Any) -> Iterator[tuple[Gateways, Streams]]:
    """Run a pair at a site with established connections through it."""
    site = Site(plan.vteps_of)
    try:
        gateways = Gateways(site, folder, mode=plan.mode, **partner)
        streams = Streams()
        try:
            gateways.until(gateways.in_step, "the pair is in step")
            for route in routes(site):
                streams.open(route)
            gateways.until(lambda: all(end.bytes for end in streams.ends), "every connection receives")
            yield gateways, streams
        finally:
            streams.close()
            gateways.close()
    finally:
        site.close()


def kill(
    gateways: Gateways, streams: Streams, death: Death, *, calm_s: float = CALM_S, watch_s: float = WATCH_S
) -> Found:
    """Kill the gateway that serves gw1's role, measure silences, and recover it.

    Waits twice `calm_s` before the kill; the silence in the second of them is the result's `calm_ms`. Measures for
    `watch_s` after the kill, and on while a connection is silent, up to `MAX_WATCH_S`.
    """
    time.sleep(calm_s)
    streams.forget()
    time.sleep(calm_s)
    calm = max(end.silence_ns() for end in streams.ends)
    victim = gateways.serving()
    streams.forget()
    begun = time.monotonic()
    gateways.die(victim, death)
    time.sleep(watch_s)
    while any(time.monotonic_ns() - end.last_ns > CALM_S * 1e9 and not end.ended for end in streams.ends):
        if time.monotonic() - begun > MAX_WATCH_S:
            break
        time.sleep(0.01)
    silences = {end.name: end.silence_ns() / 1e6 for end in streams.ends}
    gateways.recover(victim, death)
    return {"victim": victim, "calm_ms": calm / 1e6, "gap_ms": max(silences.values()), "silences_ms": silences}
