"""Every document of the page's interface against its own OpenAPI document, and against the gRPC API."""

import asyncio
import json
import re
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from heddle.controller.dashboard.documents.fabric import fabric_text
from heddle.controller.dashboard.documents.state import congested_ports
from heddle.controller.model.found_cabling import Rejoined, with_found
from heddle.controller.runtime.telemetry import LinkRecord
from heddle.controller.views.congestion import Congested
from heddle.telemetry.detection.signal import Signal, SignalKind
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.dashboard_documents import troubled_documents
from tests.unit.api.conftest import running
from tests.unit.api.test_job_service import message
from tests.unit.brain.driver import small_fabric
from tests.unit.dashboard.web_client import next_state, streamed, web


@pytest.fixture
async def page():
    """A controller with its switches, and a client of it."""
    async with running() as found:
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


async def test_the_documents_of_the_browser_tests_have_the_shapes_that_the_openapi_document_declares(page):
    _, client = page
    declared = await client.json("/api/openapi.json")
    places = {re.compile(re.sub(r"{\w+}", "[^/]+", path)): path for path in declared["paths"]}
    faults, checked = set[str](), 0
    for place, document in troubled_documents().items():
        path = next((path for pattern, path in places.items() if pattern.fullmatch(place)), None)
        if path is None or callable(document):
            continue
        schema = declared["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        validator = Draft202012Validator({**schema, "components": declared["components"]})
        for error in validator.iter_errors(document):
            faults.add(f"{place}: {re.sub(r'[0-9]+', '', error.json_path)}: {error.message[:150]}")
        checked += 1
    assert not faults, "\n".join(sorted(faults))
    assert checked > 8


def test_the_fabric_says_which_cables_are_used_as_they_were_found_and_since_when():
    fabric = small_fabric()
    first, second, *_ = fabric.cables
    there = (replace(first, upper=second.upper), replace(second, upper=first.upper))
    found = with_found(fabric, [Rejoined((first.id, second.id), there)])
    names = sorted(cable.id for cable in there)
    assert json.loads(fabric_text(found, 5))["as_found"] == {"count": 2, "first": names, "since_ms": 5}
    assert json.loads(fabric_text(found))["as_found"]["since_ms"] is None
    assert json.loads(fabric_text(fabric, 5))["as_found"] is None


@pytest.mark.parametrize(("times", "since_ms"), [((3, 5), 5), ((3, 5, 9), 5), ((9,), None)])
async def test_the_time_of_an_attempt_of_this_life_is_not_since_when_cables_are_used_as_found(page, times, since_ms):
    """One that succeeds ends the life; it was refused, or is under way."""
    page, client = page
    loop = page.application.loop
    fabric, now = loop.state.fabric, loop.now_unix_ms()
    first = fabric.cables[0]
    there = replace(first, lower=first.lower._replace(number=first.lower.number + 50))
    found = with_found(fabric, [Rejoined((first.id,), (there,))])
    cabling = replace(loop.state.cabling, followed=tuple(now - 10 + time for time in times))
    loop.state = replace(loop.state, fabric=found, cabling=cabling, started_unix_ms=now - 2)
    wanted = loop.published_unix_ms(now - 10 + since_ms) if since_ms else None
    assert (await client.json("/api/fabric"))["as_found"]["since_ms"] == wanted


async def test_the_state_is_what_the_grpc_api_says(page):
    page, client = page
    await page.jobs.SubmitJob(message())
    page.feed.grow("leaf1:1", tx_bytes=10, rx_bytes=10)
    page.feed.scan()
    page.feed.grow("leaf1:1", tx_bytes=60_000_000, rx_bytes=10_000_000)
    page.feed.scan()
    await page.fabric.Drain(pb.DrainRequest(target="leaf4:2>spine2:4"))
    topology = await page.fabric.GetTopology(pb.GetTopologyRequest())
    plans = (await page.jobs.ListJobs(pb.ListJobsRequest())).jobs
    fabric, state = await client.json("/api/fabric"), await client.json("/api/state")
    assert [link["id"] for link in fabric["links"]] == [link.id for link in topology.links]
    links = state["links"]
    assert links["planned"] == [round(link.planned_utilisation, 3) for link in topology.links]
    assert links["utilisation"] == [
        round(link.measured_utilisation, 3) if link.measured else None for link in topology.links
    ]
    assert max(value or 0 for value in links["utilisation"]) == 0.48
    assert links["up"] == [link.up for link in topology.links]
    assert sum(links["drained"]) == sum(link.drained for link in topology.links) == 2
    assert [switch["id"] for switch in fabric["switches"]] == [switch.id for switch in topology.switches]
    assert state["switches"]["rules"] == [switch.rules for switch in topology.switches]
    assert [(job["id"], job["max_utilisation"]) for job in state["jobs"]] == [
        (plan.job_id, plan.certificate.own_max_link_utilisation) for plan in plans
    ]
    job = await client.json("/api/jobs/a")
    assert [(flow["id"], flow["links"], flow["planned_bps"]) for flow in job["flows"]] == [
        (flow.flow_id, list(flow.links), flow.rate_bps) for flow in plans[0].flows
    ]
    assert job["certificate"]["ecmp"] == plans[0].certificate.ecmp_max_link_utilisation
    slowed = [flow for flow in plans[0].flows if flow.work_conserving]
    assert job["certificate"]["flows_work_conserving"] == plans[0].certificate.flows_work_conserving == len(slowed)


async def test_the_congestion_is_what_the_grpc_api_says(page):
    page, client = page
    page.application.feeds.telemetry.configured = True
    await page.jobs.SubmitJob(message())
    page.feed.queue("spine1:2", packets=1, ecn_marked_packets=1)
    page.feed.queue("leaf1:1", packets=1, pfc_rx_frames=1, paused_ns=1)
    page.feed.scan()
    page.feed.queue("spine1:2", packets=1_000, ecn_marked_packets=900)
    page.feed.queue("leaf1:1", packets=10, pfc_rx_frames=50_000, paused_ns=900_000_000)
    page.feed.scan()
    wanted = (await page.telemetry.ListCongestion(pb.ListCongestionRequest())).congestion
    found = await client.json("/api/congestion")
    assert wanted
    assert [(f"{port['switch']}:{port['port']}", port["cause"], port["root_cause"]) for port in found["ports"]] == [
        (one.port, one.kind, one.root_cause) for one in wanted
    ]
    edges = [edge for tree in found["pause_trees"] for edge in tree["edges"]]
    assert {"from": {"switch": "leaf1", "port": 1}, "to": {"switch": "spine1", "port": 2}} in edges


async def test_the_matrix_adds_up_leaf_by_spine(page):
    page, client = page
    await page.jobs.SubmitJob(message())
    found = await client.json("/api/matrix", of="planned")
    assert (len(found["leaves"]), len(found["spines"])) == (4, 2)
    assert found["up"] == [[1.0, 1.0]] * 4
    assert found["imbalance_index"] == 1.0
    assert (await client.json("/api/matrix", of="measured"))["up"] == [[None, None]] * 4


async def test_the_stream_sends_a_drain_and_its_event_and_begins_again_after_a_break(page):
    page, client = page
    async with streamed(client) as stream:
        first = await next_state(stream)
        await page.fabric.Drain(pb.DrainRequest(target="leaf1:1>spine1:1"))
        later = await next_state(stream, lambda state: sum(state["links"]["drained"]) == 2)
        events = await anext(data async for event, _, data in stream if event == "timeline")
    assert later["sequence"] > first["sequence"]
    assert any("drained" in event["text"] for event in events)
    for last in ("another-1", "nonsense", f"{later['boot']}-1"):
        async with streamed(client, **{"Last-Event-ID": last}) as stream:
            assert (await next_state(stream))["boot"] == later["boot"]


async def test_actions_say_what_they_will_move_then_move_it_and_leave_an_event(page):
    page, client = page
    await page.jobs.SubmitJob(message())
    plan = (await client.act("drain", target="leaf1:1>spine1:1", dry_run=True)).json()
    assert plan["dry_run"] is True
    assert plan["jobs"] == ["a"]
    assert not page.application.loop.state.drained
    done = (await client.act("drain", target="leaf1:1>spine1:1")).json()
    assert done["moves"] == plan["moves"] > 0
    assert (await client.act("drain", target="leaf1:1>spine1:1", undrain=True)).status_code == 200
    assert (await client.act("release", job="a", dry_run=True)).json()["moves"] == 8
    assert (await client.act("release", job="a")).status_code == 200
    assert await client.json("/api/jobs") == {"jobs": []}
    texts = [event["text"] for event in (await client.json("/api/timeline"))["events"]]
    assert sum("requested over HTTP" in text for text in texts) == 3


async def test_a_dry_run_is_refused_where_the_drain_is(page):
    page, client = page
    await page.jobs.SubmitJob(message())
    assert (await client.act("drain", target="spine1")).status_code == 200
    dry, wet = [await client.act("drain", target="spine2", dry_run=is_dry) for is_dry in (True, False)]
    assert (dry.status_code, dry.json()) == (wet.status_code, wet.json())
    assert dry.status_code == 409
    assert "has no path without spine2" in dry.json()["error"]


async def test_a_preview_plans_without_reserving(page):
    page, client = page
    nics = [nic.id for nic in page.application.loop.state.fabric.nics]
    reply = await client.act("preview", ranks=nics, collective="ALL_TO_ALL", size_bytes=1 << 20)
    plan = reply.json()
    assert reply.status_code == 200, plan
    assert plan["flows_total"] == len(nics) * (len(nics) - 1)
    assert max(plan["links_planned"]) >= plan["certificate"]["achieved"] > 0
    text = "jobs:\n- job_id: b\n  ranks: {all: true}\n  collectives: [{kind: RING_ALL_REDUCE, bytes: 1000}]\n"
    assert (await client.act("preview", jobs=text)).json()["id"] == "b"
    assert not page.application.loop.state.jobs


async def test_history_returns_a_recorded_moment_and_the_series_of_a_port(tmp_path):
    async with running(history=str(tmp_path / "history.db")) as page, web(page.addresses["http"]) as client:
        await history_of(page, client)


async def history_of(page, client):
    now_s = page.application.loop.now_unix_ms() // 1_000
    page.feed.now_ns = (now_s - 30) * 1_000_000_000
    for _ in range(4):
        page.feed.grow("leaf1:1", tx_bytes=25_000_000)
        page.feed.queue("leaf1:1", packets=100, pfc_rx_frames=4, paused_ns=200_000_000, depth_bytes=77)
        page.feed.scan()
    moment_ms = (now_s - 28) * 1_000
    history = page.application.feeds.telemetry.history
    history.record_links(LinkRecord((moment_ms - 1_000) * 1_000_000, ("leaf1:1>spine1:1",), ("leaf2:1>spine1:2",)))
    history.record_links(LinkRecord((moment_ms + 1) * 1_000_000, (), ()))
    of_port = partial(client.json, "/api/ports/leaf1/1", from_ms=moment_ms - 5_000)
    async with asyncio.timeout(20):  # until the last is written: the first one alone has nothing to compare with
        while moment_ms + 1_000 not in ((await of_port()).get("series") or {"t_ms": ()})["t_ms"]:
            await asyncio.sleep(0.1)
    reply = await client.get("/api/at", at_ms=moment_ms)
    assert reply.status_code == 200
    links = dict(
        zip(
            map(itemgetter("id"), (await client.json("/api/fabric"))["links"]),
            reply.json()["links"]["utilisation"],
            strict=True,
        )
    )
    assert links["leaf1:1>spine1:1"] == 0.2
    assert reply.json()["links"]["planned"] is None
    await marked_links(page, client, reply.json()["links"])
    series = (await of_port())["series"]
    at = series["t_ms"].index(moment_ms)
    assert (series["utilisation"][at], series["pfc_rx_per_s"][at], series["depth_bytes"][at]) == (0.2, 4, 77)
    assert (await client.get("/api/at", at_ms=moment_ms - 3_600_000)).json() == {"error": "not recorded"}


async def marked_links(page, client, links):
    """The links that were down and drained at the moment, in both directions; now another is drained."""
    names = [link["id"] for link in (await client.json("/api/fabric"))["links"]]
    assert {name for name, up in zip(names, links["up"], strict=True) if not up} == {
        "leaf1:1>spine1:1", "spine1:1>leaf1:1"
    }  # fmt: skip
    assert {name for name, drained in zip(names, links["drained"], strict=True) if drained} == {
        "leaf2:1>spine1:2", "spine1:2>leaf2:1"
    }  # fmt: skip
    await page.fabric.Drain(pb.DrainRequest(target="leaf4:2>spine2:4"))
    loop, history = page.application.loop, page.application.feeds.telemetry.history
    async with asyncio.timeout(20):
        while history.links((loop.now_unix_ms() + 1) * 1_000_000)[1:] != ((), ("leaf4:2>spine2:4",)):
            await asyncio.sleep(0.1)


BAD = [
    ("/api/jobs/none", 404), ("/api/ports/none/1", 404), ("/api/ports/leaf1/99", 404), ("/api/ports/leaf1/x", 400),
    ("/api/nics/none", 404), ("/api/jobs/%00", 404), ("/api/jobs/" + "x" * 5_000, 400), ("/api/nothing", 404),
    ("/api/at", 400), ("/api/at?at_ms=x", 400), ("/api/at?at_ms=-1", 400), ("/api/at?at_ms=9e9", 400),
    ("/api/at?at_ms=99999999999999", 400), ("/api/at?at_ms=1&at_ms=2", 400), ("/api/at?at_ms=1", 404),
    ("/api/at?at_ms=" + "9" * 5_000, 400), ("/api/at?at_ms=%D9%A1", 400),
    ("/api/timeline?from_ms=99999999999999", 400), ("/api/timeline?from_ms=2&to_ms=1", 400),
    ("/api/timeline?limit=0", 400), ("/api/timeline?limit=1000000000", 400), ("/api/timeline?%ff=%fe", 400),
    ("/api/ports/leaf1/1?from_ms=99999999999999", 400), ("/api/matrix?of=nothing", 400), ("/api/state/x", 404),
    ("/api/fabric?x", 400), ("/api/jobs?page=1", 400), ("/nothing", 404), ("/static/../server.py", 404),
    ("/static/%2e%2e/server.py", 404), ("/static/nothing.js", 404), ("/api/actions/drain", 405),
]  # fmt: skip


async def test_bad_input_is_refused_with_what_is_wrong(page):
    _, client = page
    replies = {path: await client.client.get(path) for path, _ in BAD}
    assert {path[:80]: reply.status_code for path, reply in replies.items()} == {path[:80]: code for path, code in BAD}
    assert all(reply.json()["error"] for path, reply in replies.items() if path.startswith("/api/"))
    assert "No such page" in replies["/nothing"].text


BAD_BODIES: list[tuple[str, dict[str, Any], int]] = [
    ("drain", {}, 400), ("drain", {"target": 1}, 400), ("drain", {"target": "none"}, 404),
    ("drain", {"target": "leaf1", "more": 1}, 400), ("drain", {"target": "leaf1", "dry_run": "yes"}, 400),
    ("release", {"job": "none"}, 404), ("release", {"job": "none", "dry_run": True}, 404), ("preview", {}, 400),
    ("preview", {"jobs": "{"}, 400), ("preview", {"jobs": "jobs: []"}, 400),
    ("preview", {"ranks": ["none"], "collective": "ALL_TO_ALL"}, 400),
    ("preview", {"ranks": [], "collective": "NONE"}, 400), ("preview", {"jobs": "x", "ranks": []}, 400),
]  # fmt: skip


async def test_a_bad_action_is_refused_with_what_is_wrong(page):
    _, client = page
    replies = [await client.act(action, **body) for action, body, _ in BAD_BODIES]
    assert [reply.status_code for reply in replies] == [status for *_, status in BAD_BODIES]
    assert all(reply.json()["error"] for reply in replies)


async def test_a_body_that_is_too_long_or_no_json_is_refused(page):
    _, client = page
    headers = {"X-CSRF-Token": (await client.json("/api/session"))["csrf"], "Content-Type": "application/json"}
    for body in (b"{", b"\xff", b"[" * 100_000, b'{"target":"' + b"x" * (1 << 20) + b'"}'):
        assert (await client.client.post("/api/actions/drain", content=body, headers=headers)).status_code == 400
    del headers["Content-Type"]
    assert (await client.client.post("/api/actions/drain", content=b"{}", headers=headers)).status_code == 400


async def test_an_unchanged_document_is_not_sent_twice(page):
    _, client = page
    tag = (await client.get("/api/fabric")).headers["etag"]
    again = await client.client.get("/api/fabric", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_a_congested_port_that_another_port_pauses_is_no_root():
    def condition(kind, port, root):
        signal = Signal(
            kind=kind,
            port=port,
            priority=3,
            raised=True,
            value=0.9,
            threshold=0.5,
            since_unix_ns=0,
            sampled_unix_ns=0,
        )
        return Congested(signal=signal, flow_ids=(), flows=0, root_cause=root)

    found = (
        condition(SignalKind.CONGESTION, "leaf1:3", "leaf1:3"),
        condition(SignalKind.CONGESTION, "spine1:1", "spine1:1"),
        condition(SignalKind.PAUSING, "spine1:1", "leaf1:3"),
    )
    assert [(each["port"], each["root"]) for each in congested_ports(found)] == [(3, True), (1, False), (1, False)]
