"""`heddle balancer` between real clients and real nginx back ends on the kernel's VXLAN, in namespaces."""

import os
import shutil
import signal
import time

import pytest

from tests.support.balancer_trials import wrk_result
from tests.support.processes.balancer_processes import ENDS, VIP, Running, Site

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin") is None
                       and shutil.which("nginx") is None, reason="nginx is not installed"),
]  # fmt: skip


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.close()


@pytest.fixture(params=["af-xdp", "af-packet"])
def running(request, site, tmp_path):
    found = Running(site, tmp_path, request.param)
    yield found
    found.close()


def test_real_clients_reach_real_servers_and_a_dead_one_is_left_out(running, site):
    running.until(lambda: running.up() == running.up(1) == set(ENDS))
    for port in (80, 443):
        replies = [site.curl(port=port) for _ in range(30)]
        assert [reply.stderr for reply in replies if reply.returncode] == []
        assert len({reply.stdout for reply in replies}) >= 2
    big = site.curl("-o", "/dev/null", "-w", "%{size_download}", port=443, path="big")
    assert big.stdout == "4000000"
    site.stop_nginx(52)
    running.until(lambda: running.up() == running.up(1) == {51, 53})
    replies = [site.curl(port=port) for port in (80, 443) for _ in range(20)]
    assert {reply.stdout for reply in replies} <= {"51\n", "53\n"}
    site.start_nginx(52)
    running.until(lambda: running.up() == set(ENDS))
    for last in ENDS:
        site.stop_nginx(last)
    running.until(lambda: running.up() == running.up(1) == set())
    for port in (80, 443):
        refused = site.curl("-w", "%{time_total}", port=port)
        assert refused.returncode == 7, refused.stderr
    assert "new connections are refused" in running.log_text()
    found = running.status()
    assert found["balancer"]["refused"] >= 2
    running.until(lambda: (now := running.status())["received"] == now["ended"])


def test_downloads_go_on_when_one_of_two_balancers_is_killed(site, tmp_path):
    first = Running(site, tmp_path, "af-xdp", number=1, paired=True)
    try:
        second = Running(site, tmp_path, "af-xdp", number=2, paired=True)
    except BaseException:
        first.close()
        raise
    try:
        for each in (first, second):
            each.until_all_are_up()
        first.until(lambda: first.status()["pair"]["partner_has_copy"])
        kept = [site.wrk(6, "-c8", "--timeout", "10s", port=port) for port in (80, 443)]
        downloads = [
            site.client.start("curl", "-sS", "--max-time", "60", "--limit-rate", "1M", "-o", "/dev/null",
                              f"http://{VIP}:{port}/big")
            for port in (80, 80, 80, 80, 443, 443, 443)
        ]  # fmt: skip
        first.until(lambda: first.status()["tables"]["connections_established"]["used"] >= 30)
        for each in (first, second):  # from now on the hash alone would lead to other back ends
            each.draining = (51,)
            each.reload()
        second.until(lambda: second.status()["tables"]["connections_established"]["used"] >= 10)
        os.kill(first.status()["pid"], signal.SIGKILL)
        first.process.kill()
        assert [download.wait(60) for download in downloads] == [0] * 7
        assert [wrk_result(each).errors for each in kept] == [0, 0]
        assert site.curl().returncode == 0
        assert set(second.status()["pair"]["serves"]) == {first.id, second.id}
    finally:
        first.close()
        second.close()


# How frames enter and leave has no part in draining: the test above has both.
@pytest.mark.parametrize("running", ["af-xdp", pytest.param("af-packet", marks=pytest.mark.soak)], indirect=True)
def test_a_drained_server_finishes_its_downloads(running, site):
    running.until(lambda: running.up() == set(ENDS))
    downloads = [
        site.client.start("curl", "-sS", "--max-time", "60", "--limit-rate", "1M", "-o", "/dev/null",
                          f"http://{VIP}/big")
        for _ in range(6)
    ]  # fmt: skip
    time.sleep(0.5)
    running.draining = (51,)
    running.reload()
    assert {site.curl().stdout for _ in range(20)} == {"52\n", "53\n"}
    assert [download.wait(60) for download in downloads] == [0] * 6
