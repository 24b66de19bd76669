"""Ports toggle thousands of times in a second on a large fabric: how late the loop's tasks are, and what state wins."""

import json
import random
import signal
import time
from typing import NamedTuple

from heddle.benchmarks.loop.world import World, pairs_job, wait_for_links
from heddle.controller.model.fabric import Cable

PORTS = 200
IDLE_S = 2.0
BATCHES = 100
SETTLE_S = 3.0


class Lag(NamedTuple):
    """Milliseconds that a probe in the loop was late: before, while ports toggled, and while what follows settled."""

    idle_ms: tuple[float, ...]
    toggling_ms: tuple[float, ...]
    settling_ms: tuple[float, ...]
    seconds: float
    """The time in which the toggles were sent."""


class Wakes(NamedTuple):
    """Milliseconds by which a probe in the loop was late, and of the loop's processor time while it slept."""

    late_ms: tuple[float, ...]
    used_ms: tuple[float, ...]


def late_ms(world: World) -> tuple[float, ...]:
    """Return how late the probe has been since the last call."""
    return wakes(world).late_ms


def wakes(world: World) -> Wakes:
    """Return what the probe has found since the last call."""
    process = world.controller.process
    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    return Wakes(*map(tuple, json.loads(process.stdout.readline())))


def measured(world: World, seed: int, toggles: int, pairs: int) -> Lag:
    """Toggle the lower ports of PORTS cables in turn within a second; the last state of each is drawn.

    Raises TimeoutError where the controller does not end with the last states.
    """
    drawn = random.Random(seed)
    if pairs:
        world.controller.jobs.SubmitJob(pairs_job(world.fabric, seed, "beside", pairs, 1, "SOURCE_PORT"))
    time.sleep(SETTLE_S)
    late_ms(world)
    time.sleep(IDLE_S)
    idle = late_ms(world)
    cables = drawn.sample(world.fabric.cables, PORTS)
    ends = {cable: drawn.random() < 0.5 for cable in cables}
    rounds = toggles // PORTS
    began = time.monotonic()
    for number in range(toggles):
        cable = cables[number % PORTS]
        _toggle(world, cable, up=ends[cable] ^ ((rounds - 1 - number // PORTS) % 2 == 1))
        if number % BATCHES == 0:
            time.sleep(max(0.0, began + number / toggles - time.monotonic()))
    seconds = time.monotonic() - began
    toggling = late_ms(world)
    down = {link for cable in cables if not ends[cable] for link in (cable.up_link, cable.down_link)}
    wait_for_links(world.controller, frozenset(down))
    time.sleep(SETTLE_S)
    wait_for_links(world.controller, frozenset(down))
    return Lag(idle, toggling, late_ms(world), seconds)


class FailureLag(NamedTuple):
    """Milliseconds that a probe in the loop was late: before, and while one cable after the other fails and returns."""

    idle_ms: tuple[float, ...]
    failing_ms: tuple[float, ...]


def lag_of_failures(world: World, seed: int, pairs: int, failures: int) -> FailureLag:
    """Let single cables fail and return under a job of random pairs with two queue pairs each."""
    drawn = random.Random(seed)
    world.controller.jobs.SubmitJob(pairs_job(world.fabric, seed, "beside", pairs, 2, "SOURCE_PORT"))
    time.sleep(SETTLE_S)
    late_ms(world)
    time.sleep(IDLE_S)
    idle = late_ms(world)
    for cable in drawn.sample(world.fabric.cables, failures):
        for up in (False, True):
            world.switches.set_cable(cable, up=up)
            wait_for_links(world.controller, frozenset() if up else frozenset((cable.up_link, cable.down_link)))
            time.sleep(SETTLE_S)
    return FailureLag(idle, late_ms(world))


def _toggle(world: World, cable: Cable, *, up: bool) -> None:
    world.switches.post_port(cable.lower, up=up)
