"""`heddle lab fabric` and the commands of a second terminal, on one lab: traffic, cut, heal, Ctrl-C."""

import json
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from heddle.controller.model.error import AlreadyExistsError, HeddleError
from heddle.mininet_topos.host.registry import clear_dead_labs
from heddle.mininet_topos.playground.client import call, find_lab
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.browser.test_page_of_a_controller import ROWS, TITLES, loads
from tests.support.processes.browser import Browser, Page, chromium
from tests.support.processes.mosquitto import PROGRAM
from tests.support.traces_of_labs import NOTHING, traces_of

NEEDS = (
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
    pytest.mark.skipif(not Path(PROGRAM).exists(), reason="Debian's mosquitto is not installed (scripts/setup all)"),
    pytest.mark.skipif(chromium() is None, reason="Debian's chromium is not installed (scripts/setup all)"),
)
pytestmark = [pytest.mark.e2e, *NEEDS]
# A script that runs the tests in the background has SIGINT ignored, which processes inherit.
HEDDLE = ("env", "--default-signal=INT", sys.executable, "-m", "heddle.programs.console.main", "lab")
TIMEOUT_S = 200
IDLE, BUSY = 0.01, 0.5


def start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([*HEDDLE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ready_line(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], TIMEOUT_S)[0]
    line = process.stdout.readline()
    assert line, process.communicate()
    return json.loads(line)


class Running(NamedTuple):
    process: "subprocess.Popen[str]"
    ready: dict[str, Any]
    channel: grpc.Channel

    def links(self) -> dict[str, pb.Link]:
        return {
            link.id: link for link in rpc.FabricServiceStub(self.channel).GetTopology(pb.GetTopologyRequest()).links
        }

    def jobs(self) -> int:
        return len(rpc.JobServiceStub(self.channel).ListJobs(pb.ListJobsRequest()).jobs)


@pytest.fixture
def running(own_registry) -> Iterator[Running]:
    process = start("fabric", "--json")
    try:
        ready = ready_line(process)
        with grpc.insecure_channel(ready["grpc"]) as channel:
            yield Running(process, ready, channel)
    finally:
        process.kill()
        process.communicate()
        clear_dead_labs()


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@contextmanager
def page_of(url: str) -> Iterator[Page]:
    """Show the lab's page in Chromium while the context lasts, from when it shows the fabric."""
    browser = Browser()
    try:
        with browser.page() as page:
            page.open(url)
            page.wait_for("document.querySelectorAll('.node').length === 14")
            yield page
    finally:
        browser.close()


def test_a_lab_is_loaded_cut_healed_and_ended_from_other_terminals_and_leaves_nothing(running):
    lab = find_lab(None)
    assert lab.id == running.ready["lab"]
    assert urllib.request.urlopen(running.ready["url"], timeout=TIMEOUT_S).status == 200

    until(lambda: all(link.measured for link in running.links().values()))
    assert max(link.measured_utilisation for link in running.links().values()) < IDLE, "an idle fabric shows zeros"

    with page_of(running.ready["url"]) as page:
        traffic = start("traffic", "permutation", "--seconds", "4", "--json")
        until(lambda: max(link.measured_utilisation for link in running.links().values()) > BUSY)
        with pytest.raises(HeddleError, match=r"^permutation, planned, is running, for another \d s; end it by Ctrl-C"):
            call(lab, {"op": "traffic", "workload": "ring", "planned": True, "seconds": 5, "rate_bps": 0, "seed": 1})
        cable = next(name for name, one in running.links().items() if one.planned_utilisation and "spine" in name)
        assert "known_after_ms" in call(lab, {"op": "cut", "link": cable})
        page.wait_for_text(f"Link {cable.replace('>', ' – ')} is down", "#attention")
        page.wait_for("document.querySelector('.mark path.down') !== null")
        assert page.errors == []
    assert not running.links()[cable].up
    with pytest.raises(HeddleError, match=r"is cut already; repair it with `heddle lab heal ") as refusal:
        call(lab, {"op": "cut", "link": ">".join(reversed(cable.split(">")))})
    assert refusal.value.exit_status == AlreadyExistsError.exit_status
    out, err = traffic.communicate(timeout=TIMEOUT_S)
    assert traffic.returncode == 0, err
    result = json.loads(out)
    assert result["mode"] == "planned"
    assert len(result["flows"]) == 8
    assert all(flow["goodput_bps"] > 0 for flow in result["flows"])
    assert any(flow["moves"] for flow in result["flows"])
    assert any(" down" in moment["text"] for moment in result["moments"])
    assert running.jobs() == 0
    call(lab, {"op": "heal", "link": cable})
    assert running.links()[cable].up

    interrupted = start("traffic", "permutation", "--hashed", "--seconds", "300")
    until(lambda: max(link.measured_utilisation for link in running.links().values()) > BUSY)
    assert running.jobs() == 0, "hashed traffic is no job"
    interrupted.send_signal(signal.SIGINT)
    interrupted.communicate(timeout=TIMEOUT_S)
    assert interrupted.returncode == 130
    until(lambda: max(link.measured_utilisation for link in running.links().values()) < IDLE)

    orphan = start("traffic", "ring", "--seconds", "300")
    until(lambda: max(link.measured_utilisation for link in running.links().values()) > BUSY)
    assert all(traces_of(lab.id).values())
    running.process.send_signal(signal.SIGINT)
    _, err = running.process.communicate(timeout=TIMEOUT_S)
    assert running.process.returncode == 0, err
    assert traces_of(lab.id) == NOTHING
    _, err = orphan.communicate(timeout=TIMEOUT_S)
    assert (orphan.returncode, err.splitlines()[-1]) == (1, f"heddle: lab {lab.id} has ended")


@pytest.mark.soak
def test_what_a_killed_lab_left_is_cleared(running):
    running.process.kill()
    running.process.communicate()
    assert traces_of(running.ready["lab"])["processes"]
    clear_dead_labs()
    assert traces_of(running.ready["lab"]) == NOTHING


@pytest.mark.soak
@pytest.mark.parametrize("workload", ["all-to-all", "incast", "hog", "storm"])
@pytest.mark.parametrize("mode", ["--planned", "--hashed"])
def test_every_workload_delivers_on_both_kinds_of_paths(running, workload, mode):
    traffic = start("traffic", workload, mode, "--seconds", "4", "--json")
    out, err = traffic.communicate(timeout=TIMEOUT_S)
    assert traffic.returncode == 0, err
    assert json.loads(out)["sum_goodput_bps"] > 0
    assert running.jobs() == 0


@pytest.mark.soak
def test_every_view_of_a_lab_shows_what_the_services_serve(running):
    url, jobs = running.ready["url"].rstrip("/"), rpc.JobServiceStub(running.channel)
    with page_of(url) as page:
        traffic = start("traffic", "permutation", "--seconds", "30", "--json")
        until(lambda: max(link.measured_utilisation for link in running.links().values()) > BUSY)
        call(find_lab(None), {"op": "cut", "link": "leaf1:1>spine1:1"})
        page.open(url + "/fabric?show=planned")
        links = running.links()
        wanted = {name: pytest.approx(one.planned_utilisation, abs=0.006) for name, one in links.items()}
        until(lambda: loads(page.run(TITLES)) == wanted)
        assert page.run("document.querySelectorAll('.half.down').length") == sum(not one.up for one in links.values())
        page.open(url + "/fabric?show=measured")
        until(lambda: all(near(loads(page.run(TITLES)).get(name), one) for name, one in running.links().items()))

        page.open(url + "/matrix?show=planned")
        until(lambda: alike(shown_cells(page), cells(running.links(), planned), percent=0.6))
        page.open(url + "/matrix?show=measured&way=down")
        until(lambda: alike(shown_cells(page), cells(running.links(), measured, down=True)))

        page.open(url + "/jobs/permutation")
        plan = jobs.GetJob(pb.GetJobRequest(job_id="permutation"))
        flows = {(flow.src_nic, flow.dst_nic) for flow in plan.flows}
        until(lambda: {(row[0], row[1]) for row in page.run(ROWS) if len(row) == 7 and row[0].startswith("h")} == flows)

        page.open(url + "/health")
        topology = rpc.FabricServiceStub(running.channel).GetTopology(pb.GetTopologyRequest())
        rules = {item.id: str(item.rules) for item in topology.switches}
        until(lambda: {row[0]: row[3].split()[0] for row in page.run(ROWS)} == rules)

        page.open(url + "/congestion")
        telemetry = rpc.TelemetryServiceStub(running.channel)
        until(
            lambda: (
                {item.port for item in telemetry.ListCongestion(pb.ListCongestionRequest()).congestion}
                == {row[0].split()[0] for row in page.run(ROWS)}
            )
        )
        page.open(url + "/timeline")
        page.wait_for_text("leaf1:1>spine1:1 down")
        page.open(f"{url}/fabric?at_ms={round(time.time() * 1e3) - 2_000}")
        page.wait_for_text("Link leaf1:1 – spine1:1 is down", "#attention")
        assert page.errors == []
        assert all(request.startswith((url, "data:", "about:")) for request in page.requests)
        traffic.send_signal(signal.SIGINT)
        traffic.communicate(timeout=TIMEOUT_S)


Cells = dict[tuple[str, str], float]
planned, measured = attrgetter("planned_utilisation"), attrgetter("measured_utilisation")


def cells(links: dict[str, pb.Link], load: Callable[[pb.Link], float], *, down: bool = False) -> Cells:
    """Return the load of each pair of leaf and spine in one direction, percent of its capacity."""
    sums: dict[tuple[str, str], list[float]] = {}
    for link in links.values():
        near_end, far_end = (end.split(":")[0] for end in (link.src, link.dst))
        leaf, spine = (far_end, near_end) if down else (near_end, far_end)
        if leaf.startswith("leaf") and spine.startswith("spine"):
            used = sums.setdefault((leaf, spine), [0.0, 0.0])
            used[0] += load(link) * link.capacity_bps
            used[1] += link.capacity_bps
    return {pair: 100 * used / capacity for pair, (used, capacity) in sums.items()}


CELLS = """[[...document.querySelectorAll('table.cells thead th')].map(head => head.innerText),
  ...[...document.querySelectorAll('table.cells tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))]"""


def shown_cells(page: Page) -> Cells:
    spines, *rows = page.run(CELLS)
    pairs = ((leaf, spine, text) for leaf, *texts in rows for spine, text in zip(spines, texts, strict=True))
    return {(leaf, spine): float(text.split()[0]) for leaf, spine, text in pairs if not text.startswith("·")}


def alike(shown: Cells, wanted: Cells, percent: float = 10.0) -> bool:
    """Say if both are loads of the same pairs; measured ones differ by what rates change between two readings."""
    return shown.keys() == wanted.keys() and all(abs(shown[pair] - wanted[pair]) <= percent for pair in shown)


def near(shown: float | None, link: pb.Link) -> bool:
    """Say if the page shows a link's rate: both are means of the last seconds, read one after the other."""
    return shown is not None and abs(shown - link.measured_utilisation) < 0.1
