"""What is not as wanted, in a browser: a switch that does not hold its rules, and a gateway that keeps a VPC."""

import asyncio

import pytest

from heddle.v1 import heddle_pb2 as pb
from tests.browser.test_page_of_a_controller import ROWS
from tests.support.processes.browser import Browser, Page
from tests.unit.api.conftest import running
from tests.unit.api.test_gateway_service import Controller, attached
from tests.unit.api.test_switches_at_fault import fault, submitted
from tests.unit.api.test_vpc_service import red

MARKUP = "<img src=x onerror=document.title='run'>"
AUDIT_MS = 100


async def test_a_switch_that_acknowledges_and_holds_nothing_is_named_with_the_reason(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    async with running(audit_ms=AUDIT_MS) as controller:
        await controller.connect_all()
        await submitted(controller, "runs", 1, 3)
        tables = controller.switches["leaf1"].tables
        monkeypatch.setattr(tables, "flow_mod", lambda message: None)
        tables.entries.clear()
        await controller.until(lambda topology: bool(fault(topology, "leaf1")))
        with browser.page() as page:
            await at(page, f"http://{controller.addresses['http']}/health", "readings in a row did not show")
            rows = {row[0]: row[1:] for row in await asyncio.to_thread(page.run, ROWS)}
            assert "it lacks rules that it should hold: it acknowledged them" in rows["leaf1"][3]
            assert {name: row[3] for name, row in rows.items() if name != "leaf1"} == {
                name: "equal" for name in controller.switches if name != "leaf1"
            }
            await at(page, f"http://{controller.addresses['http']}/jobs/runs", "leaf1 lacks rules")
            await at(page, f"http://{controller.addresses['http']}/fabric", "No new job uses switch leaf1")
            assert page.errors == []


async def test_a_gateway_that_keeps_and_knows_other_vpcs_is_named_with_the_reasons(browser: Browser):
    async with running() as found:
        controller = Controller(found)
        try:
            gateway = controller.attach("gw1")
            await controller.status(attached("gw1"))
            await controller.vpcs.ApplyVpc(red())
            kept = [pb.KeptVpc(vpc_id="red", why=f"as before: {MARKUP}")]
            ack = pb.GatewayAck(generation=gateway.network.generation, kept_vpcs=kept, unknown_vpcs=["former"])
            await gateway.call.write(pb.GatewayReport(ack=ack))
            await controller.status(lambda reply: bool(reply.gateways[0].kept_vpcs))
            with browser.page() as page:
                await at(page, f"http://{found.addresses['http']}/fabric", "1 VPC served as before")
                await at(page, f"http://{found.addresses['http']}/networks", "1 VPC not as wanted")
                rows = {row[0]: row[1:] for row in await asyncio.to_thread(page.run, ROWS)}
                assert f"red: as before: {MARKUP}" in rows["gw1"][1]
                assert "serves 1 VPC that the controller does not know: former" in rows["gw1"][1]
                assert await asyncio.to_thread(page.run, "document.querySelectorAll('#view img').length") == 0
                assert page.errors == []
        finally:
            for session in controller.sessions:
                await session.close()


async def at(page: Page, url: str, text: str) -> None:
    await asyncio.to_thread(page.open, url)
    await asyncio.to_thread(page.wait_for_text, text, "#view")
