"""Every document of the page's interface against its own OpenAPI document, and against the gRPC API."""

import pytest
from jsonschema import Draft202012Validator

from tests.unit.api.conftest import running
from tests.unit.api.test_job_service import message
from tests.unit.dashboard.web_client import web


@pytest.fixture
async def page(tmp_path):
    """A controller with a job, telemetry with a hot port, and history; and a client of it."""
    async with running(history=str(tmp_path / "history.db"), telemetry={"broker": None}) as found:
        await found.connect_all()
        async with web(found.addresses["http"]) as client:
            yield found, client


async def test_each_document_has_the_shape_that_the_openapi_document_declares(page):
    page, web_client = page
    await page.jobs.SubmitJob(message())
    page.feed.grow("leaf1:1", tx_bytes=10)
    page.feed.scan()
    page.feed.grow("leaf1:1", tx_bytes=1_000_000, tx_packets=1_000)
    page.feed.queue("leaf1:1", packets=1_000, ecn_marked_packets=900, pfc_rx_frames=500, paused_ns=900_000_000)
    page.feed.scan()
    declared = await web_client.json("/api/openapi.json")
    paths = {path: methods["get"] for path, methods in declared["paths"].items() if "get" in methods}
    del paths["/api/stream"], paths["/api/at"]  # no JSON; not recorded yet
    for path, operation in paths.items():
        place = path.format(switch="leaf1", port=1, nic=page.application.loop.state.fabric.nics[0].id, job_id="a")
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        validator = Draft202012Validator({**schema, "components": declared["components"]})
        found = await web_client.json(place)
        assert not [f"{path}: {error.json_path}: {error.message}" for error in validator.iter_errors(found)]
