"""Established connections of real clients outlast changes of the back ends and a SYN flood; dead back ends leave."""

import shutil

import pytest

from tests.support.balancer_trials import churn, end_flood, out_after_s, start_flood, wrk_result
from tests.support.processes.balancer_processes import ENDS, FALL, GATEWAY, INTERVAL_MS, TIMEOUT_MS, Running, Site

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed"),
]
LONG = pytest.mark.soak
SOURCES = 500_000


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.close()


@pytest.fixture
def running(site, tmp_path):
    found = Running(site, tmp_path, "af-xdp")
    try:
        found.until(lambda: found.up() == found.up(1) == set(ENDS))
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=LONG)])
def test_no_connection_of_a_drained_back_end_is_reset_while_back_ends_change(running, site, seconds):
    kept = [site.wrk(seconds, "-c16", port=port) for port in (80, 443)]
    short = site.wrk(seconds, "-c2", "-H", "Connection: close")
    changes = churn(running, seconds - 1)
    results = [wrk_result(each) for each in (*kept, short)]
    assert changes >= seconds - 2
    assert [result.errors for result in results] == [0, 0, 0]
    assert all(result.requests > 100 for result in results)
    running.until(lambda: (now := running.status())["received"] == now["ended"])


@pytest.mark.parametrize(("seconds", "rate"), [(2, 40_000), pytest.param(30, 60_000, marks=LONG)])
def test_a_flood_of_syns_resets_no_established_connection(running, site, seconds, rate):
    outside = site.plugged(GATEWAY)
    kept = [site.wrk(seconds + (3 if seconds < 10 else 10), "-c16", port=port) for port in (80, 443)]
    running.until(lambda: running.status()["tables"]["connections_established"]["used"] >= 40)
    flood = start_flood(outside, site.mac_of_balancer(), min(SOURCES, seconds * rate), rate, seconds)
    sent, results = end_flood(flood, seconds), [wrk_result(each) for each in kept]
    assert [result.errors for result in results] == [0, 0]
    status = running.status()
    assert sent > 10_000
    assert status["balancer"]["new"] > 5_000
    assert status["balancer"]["displaced"] > 1_000


def test_a_server_that_hangs_is_left_out(running):
    limit_s = (FALL * INTERVAL_MS + TIMEOUT_MS) / 1e3
    # The exact limit is for `heddle bench balancer`: here other tests take the processor.
    assert out_after_s(running, ENDS[0], hangs=True) < limit_s + 5
