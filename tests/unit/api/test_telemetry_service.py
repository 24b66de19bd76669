import asyncio
import itertools
import time

import grpc
import pytest

from heddle.controller.model.effect import Note
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.telemetry.telemetry_feed import START_NS, S
from tests.unit.api.conftest import running
from tests.unit.api.test_job_service import message

WAIT_S = 20


@pytest.fixture
async def fed():
    """A controller without switches, and what its collector would publish."""
    async with running() as controller:
        controller.application.feeds.telemetry.configured = True
        yield controller


async def taken(stream, count):
    async with asyncio.timeout(WAIT_S):
        return [await anext(stream) for _ in range(count)]


def watch_ports(controller, *ports):
    return aiter(controller.telemetry.WatchPorts(pb.WatchPortsRequest(ports=ports), timeout=WAIT_S))


def watch_events(controller, **request):
    return aiter(controller.telemetry.WatchEvents(pb.WatchEventsRequest(**request), timeout=WAIT_S))


async def listed(controller):
    return (await controller.telemetry.ListCongestion(pb.ListCongestionRequest(), timeout=WAIT_S)).congestion


async def test_ports_are_streamed_with_their_totals_then_at_every_change(fed):
    fed.feed.grow("leaf1:1", tx_bytes=1_000, tx_packets=1)
    fed.feed.queue("leaf1:1", ecn_marked_packets=1, packets=1, depth_bytes=4_096)
    fed.feed.scan()
    stream = watch_ports(fed)
    (first,) = await taken(stream, 1)
    assert (first.port, first.tx_bytes, first.timestamp_unix_ns, first.stale) == ("leaf1:1", 1_000, START_NS + S, False)
    (queue,) = first.queues
    assert (queue.priority, queue.ecn_marked_packets, queue.depth_bytes) == (3, 1, 4_096)
    fed.feed.grow("leaf1:1", tx_bytes=500)
    fed.feed.scan()
    (second,) = await taken(stream, 1)
    assert second.tx_bytes == 1_500


async def test_only_named_ports_are_streamed(fed):
    for port in ("leaf1:1", "leaf2:1", "h1-n0"):
        fed.feed.grow(port, tx_bytes=1)
    fed.feed.scan()
    stream = watch_ports(fed, "h1-n0", "leaf2:1")
    assert {sample.port for sample in await taken(stream, 2)} == {"h1-n0", "leaf2:1"}


async def test_a_port_that_went_silent_is_streamed_once_more_as_stale(fed):
    fed.feed.grow("leaf1:1", tx_bytes=1)
    fed.feed.scan()
    stream = watch_ports(fed, "leaf1:1")
    assert not (await taken(stream, 1))[0].stale
    fed.feed.scan(10, sample=False)
    assert (await taken(stream, 1))[0].stale


async def test_a_slow_reader_gets_the_newest_and_what_it_missed_is_counted(fed):
    telemetry = fed.application.feeds.telemetry
    fed.feed.grow("leaf1:1", tx_bytes=1)
    fed.feed.scan()
    stream = watch_ports(fed, "leaf1:1")
    await taken(stream, 1)
    for _ in range(5):  # the loop cannot turn between these
        fed.feed.grow("leaf1:1", tx_bytes=1)
        fed.feed.scan()
    assert (await taken(stream, 1))[0].tx_bytes == 6
    assert telemetry.skipped_ticks == 4


async def test_an_unknown_port_is_refused(fed):
    fed.feed.scan()
    with pytest.raises(grpc.aio.AioRpcError, match="no port or NIC 'leaf9:1'") as refused:
        await taken(watch_ports(fed, "leaf9:1"), 1)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


async def test_a_reader_that_leaves_is_forgotten(fed):
    fed.feed.scan()
    call = fed.telemetry.WatchPorts(pb.WatchPortsRequest())
    async with asyncio.timeout(WAIT_S):
        while not fed.application.feeds.telemetry.port_readers:
            await asyncio.sleep(0.01)
    call.cancel()
    async with asyncio.timeout(WAIT_S):
        while fed.application.feeds.telemetry.port_readers:
            await asyncio.sleep(0.01)


async def test_without_a_broker_the_error_names_how_to_configure_one():
    async with running() as controller:
        for call in (taken(watch_ports(controller), 1), listed(controller)):
            with pytest.raises(grpc.aio.AioRpcError, match=r"telemetry is not configured: .* config file") as refused:
                await call
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_before_the_first_period_congestion_is_unknown_not_absent(fed):
    with pytest.raises(grpc.aio.AioRpcError, match="has no samples yet"):
        await listed(fed)


async def test_congestion_is_listed_with_the_flows_that_it_affects():
    async with running() as controller:
        await controller.connect_all()
        plan = await controller.jobs.SubmitJob(message())
        controller.application.feeds.telemetry.configured = True
        feed = controller.feed
        flow = next(flow for flow in plan.flows if len(flow.links) == 4)
        port = flow.links[1].split(">")[0]
        feed.queue(port, packets=1)
        feed.scan()
        assert list(await listed(controller)) == []
        feed.queue(port, packets=100, ecn_marked_packets=50)
        feed.scan()
        (found,) = await listed(controller)
        assert (found.port, found.priority, found.kind, found.root_cause) == (port, 3, "congestion", port)
        assert (found.value, found.whole_port, found.stale) == (0.5, False, False)
        assert found.since_unix_ms == feed.now_ns // 1_000_000
        assert flow.flow_id in found.flow_ids
        feed.scan()
        assert list(await listed(controller)) == []


async def test_events_come_as_signals_are_raised_and_cleared(fed):
    fed.feed.grow("leaf1:1", tx_packets=1)
    fed.feed.scan()
    stream = watch_events(fed, since_unix_ns=1)
    fed.feed.grow("leaf1:1", drops=7)
    fed.feed.scan()
    (event,) = await taken(stream, 1)
    assert (event.kind, event.subject, event.severity) == ("drop_raised", "leaf1:1", "error")
    assert "7 packets" in event.text
    fed.feed.scan()
    (event,) = await taken(stream, 1)
    assert (event.kind, event.severity) == ("drop_cleared", "info")


async def test_the_controllers_own_notes_are_events_also_without_a_broker():
    async with running() as controller:
        stream = watch_events(controller, since_unix_ns=1)
        await controller.connect("leaf1")
        (event,) = await taken(stream, 1)
        assert (event.kind, event.subject, event.severity) == ("note", "leaf1", "info")


async def test_history_ends_where_nothing_more_is_kept(fed):
    telemetry = fed.application.feeds.telemetry
    for number in range(3):
        telemetry.note(Note(severity="info", subject="x", text=str(number)), 1_000 + number)
    async with asyncio.timeout(WAIT_S):
        received = [event.text async for event in watch_events(fed, history_only=True)]
        later = [event.text async for event in watch_events(fed, history_only=True, since_unix_ns=1_001_000_000)]
    assert (received, later) == (["0", "1", "2"], ["1", "2"])


async def test_a_reader_of_events_that_is_too_slow_learns_how_many_it_missed(fed):
    telemetry = fed.application.feeds.telemetry
    stream = watch_events(fed, since_unix_ns=1)
    telemetry.note(Note(severity="info", subject="x", text="first"), 1)
    await taken(stream, 1)
    for number in range(300):  # the loop cannot turn between these
        telemetry.note(Note(severity="info", subject="x", text=str(number)), 2)
    received = await taken(stream, 257)
    assert [event.kind for event in received if event.kind != "note"] == ["skipped"]
    assert "44 events" in received[0].text


async def test_the_topology_has_measured_utilisation_of_links_with_fresh_samples(fed):
    for _ in range(2):
        fed.feed.grow("leaf1:1", tx_bytes=10**9 // 8 // 2)
        fed.feed.scan()
    topology = await fed.fabric.GetTopology(pb.GetTopologyRequest())
    links = {link.id: link for link in topology.links}
    assert links["leaf1:1>spine1:1"].measured
    assert links["leaf1:1>spine1:1"].measured_utilisation == pytest.approx(0.5)
    assert [link.id for link in itertools.islice((link for link in topology.links if link.measured), 5)] == [
        "leaf1:1>spine1:1",
        "spine1:1>leaf1:1",
    ]


async def test_events_outlive_a_restart_where_a_history_is_kept(tmp_path):
    config = {"history": str(tmp_path / "history.sqlite")}
    now_ms = time.time_ns() // 1_000_000
    async with running(**config) as controller:
        note = Note(severity="info", subject="x", text="before the restart")
        controller.application.feeds.telemetry.note(note, now_ms)
    async with running(**config) as controller, asyncio.timeout(WAIT_S):
        kept = [event.text async for event in watch_events(controller, history_only=True, since_unix_ns=1)]
    assert kept == ["before the restart"]
