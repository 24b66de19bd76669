"""One of two gateways fails in various ways under TCP connections: none ends, and no byte is wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.packets.live_streams import assert_streams_continue, assert_unharmed
from tests.support.pair.gateways import Death, Gateways
from tests.support.pair.streams import Streams
from tests.support.pair.takeover import EACH, ONE, Plan, kill, running

MAX_GAP_MS = 10_000
"""Ten times the promised value."""
BRIEFLY = {"calm_s": 0.1, "watch_s": 0.7}
"""No gap is measured here; a takeover is complete once every end receives again."""
# alone: a gateway that has no processor for half a second is taken for dead, beside the one that a test kills
pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.timeout(900)]


def plan(mode: str, death: Death = Death.BOTH) -> Plan:
    return Plan(name=mode, mode=mode, death=death, vteps_of=ONE if mode == "active-standby" else EACH)


MODES = ["active-standby", "active-active"]
WHOLE = (Death.BOTH, Death.TERM)
PARTIAL = tuple(death for death in Death if death not in WHOLE)
PREEMPTIONS = [("active-active", 1), *(pytest.param(mode, 2, marks=pytest.mark.soak) for mode in MODES)]
"""Modes and numbers of kills. Each role fails back by the same code; in active-active the partner keeps its own."""


@pytest.fixture(scope="module", params=MODES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gateways, Streams]]:
    with running(plan(request.param), tmp_path_factory.mktemp("pair")) as made:
        yield made


@pytest.mark.parametrize("death", WHOLE)
def test_connections_survive(pair: tuple[Gateways, Streams], death: Death) -> None:
    survive(pair, death)


# Both modes notice a death by the same code: the short form has it where both gateways serve.
@pytest.mark.parametrize("death", PARTIAL)
@pytest.mark.parametrize(
    "pair", [pytest.param(MODES[0], marks=pytest.mark.soak), MODES[1]], indirect=True, scope="module"
)
def test_connections_survive_where_a_part_fails(pair: tuple[Gateways, Streams], death: Death) -> None:
    survive(pair, death)


def survive(pair: tuple[Gateways, Streams], death: Death) -> None:
    gateways, streams = pair
    found = kill(gateways, streams, death, **BRIEFLY)
    assert_streams_continue(gateways, streams)
    print(f"{death.value} of {found['victim']}: {found['gap_ms']:.0f} ms without a byte at most")
    assert found["gap_ms"] < MAX_GAP_MS


def test_the_counters_of_both_agree_once_idle(pair: tuple[Gateways, Streams]) -> None:
    gateways, streams = pair
    assert_unharmed(streams)
    streams.pause()
    try:
        gateways.until(lambda: all(balanced(gateways, name) for name in ("gw1", "gw2")), "the books agree")
    finally:
        streams.resume()


def balanced(gateways: Gateways, name: str) -> bool:
    found = gateways.status(name)
    return bool(found["received"] == found["ended"])


@pytest.mark.parametrize(("mode", "kills"), PREEMPTIONS)
def test_preemption_loses_nothing(tmp_path: Path, mode: str, kills: int) -> None:
    with running(plan(mode), tmp_path, preempt=True, hold_s=1) as (gateways, streams):
        gateways.until(lambda: gateways.serves("gw1"), "gw1 serves its own share")
        for _ in range(kills):
            assert kill(gateways, streams, Death.BOTH, **BRIEFLY)["victim"] == "gw1"
            gateways.until(lambda: gateways.serves("gw1"), "gw1 serves again")
            assert_streams_continue(gateways, streams)
