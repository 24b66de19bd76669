"""The page of a whole controller with fake switches: what it shows is what the gRPC API serves."""

import asyncio
import re

import pytest

from heddle.v1 import heddle_pb2 as pb
from tests.support.processes.browser import Browser, Page
from tests.unit.api.conftest import running
from tests.unit.api.test_job_service import message

TITLES = "[...document.querySelectorAll('.hit title')].map(title => title.textContent)"
ROWS = """[...document.querySelectorAll('#view table tbody tr')].map(
  row => [...row.cells].map(cell => cell.innerText.trim()))"""
HOT = "leaf1:1"


@pytest.fixture
async def live(browser: Browser, tmp_path):
    """A controller with two jobs, a congested port and history; and a page of it."""
    async with running(history=str(tmp_path / "history.db"), telemetry={"broker": None}) as found:
        found.application.feeds.telemetry.configured = found.feed.telemetry.configured = True
        await found.connect_all()
        for job in ("a", "b"):
            await found.jobs.SubmitJob(message(job))
        found.feed.grow(HOT, tx_bytes=10)
        found.feed.scan()
        found.feed.grow(HOT, tx_bytes=100_000_000, tx_packets=100_000)
        found.feed.queue(HOT, packets=100_000, ecn_marked_packets=90_000, pfc_rx_frames=50, depth_bytes=70_000)
        found.feed.scan()
        with browser.page() as page:
            url = f"http://{found.addresses['http']}"
            yield found, page, url


async def at(page: Page, url: str, text: str) -> None:
    await asyncio.to_thread(page.open, url)
    await asyncio.to_thread(page.wait_for_text, text)


def loads(titles: list[str]) -> dict[str, float | None]:
    """Return the share that the page names for each directed link."""
    named = (re.fullmatch(r"(\S+) → (\S+): (.*)", title) for title in titles)
    return {
        f"{m[1]}>{m[2]}": None if m[3] == "not measured" else float(m[3].removesuffix(" %")) / 100 for m in named if m
    }


async def test_the_fabric_shows_the_loads_and_states_of_the_topology(live):
    controller, page, url = live
    await controller.fabric.Drain(pb.DrainRequest(target="spine2"))
    topology = await controller.fabric.GetTopology(pb.GetTopologyRequest())
    await at(page, url + "/fabric?show=planned", "Busiest ports")
    await asyncio.to_thread(page.wait_for, "document.querySelector('.node.switch.drained') !== null")
    planned = loads(await asyncio.to_thread(page.run, TITLES))
    assert planned == pytest.approx({link.id: link.planned_utilisation for link in topology.links}, abs=0.006)
    drawn = await asyncio.to_thread(page.run, "document.querySelectorAll('.half.drained').length")
    assert drawn == sum(link.drained for link in topology.links)
    await at(page, url + "/fabric?show=measured", "Busiest ports")
    measured = loads(await asyncio.to_thread(page.run, TITLES))
    wanted = {link.id: link.measured_utilisation for link in topology.links if link.measured}
    assert wanted
    assert {link: load for link, load in measured.items() if load is not None} == pytest.approx(wanted, abs=0.006)


async def test_the_other_views_show_what_the_services_serve(live):
    controller, page, url = live
    plan = await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))
    await at(page, url + "/jobs/a", "Shares links with")
    rows = await asyncio.to_thread(page.run, ROWS)
    flows = {(flow.src_nic, flow.dst_nic) for flow in plan.flows}
    assert flows == {(row[0], row[1]) for row in rows if len(row) == 7 and row[0].startswith("h")}
    achieved = next(row for row in rows if row[0] == "This plan")[1]
    assert float(achieved) == pytest.approx(plan.certificate.max_link_utilisation, abs=0.0006)
    assert [row for row in rows if row[0] == "b"]

    await at(page, url + "/congestion", "Pause trees")
    hot = await controller.telemetry.ListCongestion(pb.ListCongestionRequest())
    rows = await asyncio.to_thread(page.run, ROWS)
    assert {item.port for item in hot.congestion} == {row[0].split()[0] for row in rows}

    topology = await controller.fabric.GetTopology(pb.GetTopologyRequest())
    await at(page, url + "/health", "Installed and wanted")
    rows = await asyncio.to_thread(page.run, ROWS)
    assert {row[0]: int(row[3].split()[0]) for row in rows} == {item.id: item.rules for item in topology.switches}

    await at(page, url + "/matrix?show=planned", "largest uplink / mean of uplinks")
    rows = await asyncio.to_thread(
        page.run, "[...document.querySelectorAll('.cells tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    up = {link.id: link.planned_utilisation for link in topology.links}
    for leaf, *cells in rows:
        for spine, cell in enumerate(cells, 1):
            assert float(cell) == pytest.approx(
                100 * up[f"{leaf}:{spine}>spine{spine}:{leaf.removeprefix('leaf')}"], abs=0.51
            )

    await at(page, url + "/timeline", "events")
    rows = "document.querySelectorAll('.events li').length"
    await asyncio.to_thread(
        page.wait_for, f"fetch('/api/timeline').then(r => r.json()).then(t => t.events.length === {rows})"
    )
    await at(page, url + "/networks", "No virtual networks")
    assert page.errors == []
    assert all(url.startswith((url, "data:", "about:")) for url in page.requests)


async def test_a_cut_link_is_seen_and_a_drain_of_the_page_is_the_controllers(live):
    controller, page, url = live
    await at(page, url + "/fabric?switch=spine2", "Drain …")
    controller.switches["leaf1"].set_port(2, up=False)
    await asyncio.to_thread(page.wait_for_text, "Link leaf1:2 – spine2:1 is down", "#attention")
    await asyncio.to_thread(page.click, "[data-action=drain]")
    await asyncio.to_thread(page.wait_for, "document.querySelector('#dialog .danger')?.disabled === false")
    topology = await controller.fabric.GetTopology(pb.GetTopologyRequest())
    assert not any(switch.drained for switch in topology.switches)  # it only asked
    await asyncio.to_thread(page.click, "#dialog .danger")
    await asyncio.to_thread(page.wait_for, "document.querySelector('#dialog .danger') === null")
    await controller.until(lambda topology: any(s.id == "spine2" and s.drained for s in topology.switches))


async def test_an_address_that_names_nothing_says_what_is_wrong(live):
    _, page, url = live
    for address, text in (
        ("/jobs/none", "Job none: there is no job 'none'"),
        ("/jobs/%E0%A4%A", "Job"),
        ("/fabric?at_ms=yesterday", "“yesterday” is no moment"),
        ("/fabric?at_ms=-5", "at_ms"),
        ("/fabric?at_ms=99999999999999", "future"),
        ("/fabric?at_ms=1000", "not recorded"),
        ("/fabric?port=leaf1:99", "This fabric has no such port"),
        ("/nothing", "No such page"),
    ):
        await asyncio.to_thread(page.open, url + address)
        await asyncio.to_thread(page.wait_for_text, text)
    assert not [error for error in page.errors if "the server responded with a status of 40" not in error]
