"""Requests that are large, late or too many: what is refused, and what is kept off the event loop."""

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import grpc
import pytest

from heddle.controller.api import worker
from heddle.controller.api.counts import LIMITS, refuse_large
from heddle.controller.api.peer import host_of
from heddle.controller.api.requests import read_job, read_shape
from heddle.controller.api.services import jobs
from heddle.controller.api.translate import Room, plans_to, request_to
from heddle.controller.api.worker import MAX_LARGE_REQUESTS, SMALL_BYTES, RequestReader, begin_work
from heddle.controller.model.error import BudgetExceededError, InputError
from heddle.controller.model.limit import MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES
from heddle.controller.runtime.limits.fair_turns import Place
from heddle.controller.runtime.limits.limited import Limit
from heddle.dataplane.config.limit import MAX_ENDPOINTS_OF_A_VPC
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.test_job_service import BARRIER_REQUEST, message, refused
from tests.unit.api.test_translate import plan_of
from tests.unit.brain.driver import shift_job, small_fabric


def varint(value: int) -> bytes:
    return bytes((value & 0x7F | 0x80,)) + varint(value >> 7) if value >= 0x80 else bytes((value,))


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def collective(*fields: bytes) -> bytes:
    return field(4, b"\x08\x01" + b"".join(fields))


PAIR = b"\x08\x01\x10\x02"
TOO_MANY = {
    "ranks": field(3, b"x") * (LIMITS["ranks"] + 1),
    "collectives": field(4, b"") * (LIMITS["collectives"] + 1),
    "pairs": collective(field(4, PAIR) * (LIMITS["pairs"] // 2 + 1)) * 2,
    "flows": collective(field(5, PAIR) * (LIMITS["flows"] + 1)),
    "members": collective(field(7, b"\x81\x01" * (LIMITS["members"] // 2 + 1))) * 2,
    "move_limits": field(11, b"") * (LIMITS["move_limits"] + 1),
    "fields": b"\x28\x01" * 300_000,
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_of_a_field_than_the_limit_is_refused_by_the_name_of_the_field(name):
    with pytest.raises(InputError, match=name):
        refuse_large(TOO_MANY[name], pb.SubmitJobRequest)


def test_members_count_packed_and_one_by_one(monkeypatch):
    monkeypatch.setitem(LIMITS, "members", 5)
    refuse_large(collective(field(7, b"\x81\x01" * 3) + b"\x38\x01" * 2), pb.SubmitJobRequest)
    with pytest.raises(InputError, match="members: more than 5 in all collectives"):
        refuse_large(collective(field(7, b"\x81\x01" * 3) + b"\x38\x01" * 3), pb.SubmitJobRequest)


def test_a_request_at_the_limits_is_read():
    data = field(3, b"x") * LIMITS["ranks"] + collective(field(5, PAIR) * LIMITS["flows"])
    data += collective(field(7, b"\x81\x01" * LIMITS["members"])) + collective() * (LIMITS["collectives"] - 2)
    refuse_large(data, pb.SubmitJobRequest)


def test_a_request_of_more_bytes_than_the_limit_and_a_flow_of_many_bytes_are_refused():
    with pytest.raises(InputError, match="8,388,608"):
        refuse_large(bytes(MAX_REQUEST_BYTES + 1), pb.SubmitJobRequest)
    with pytest.raises(InputError, match="flows: one has 600 bytes"):
        refuse_large(collective(field(5, b"\x08\x01" * 300)), pb.SubmitJobRequest)


@pytest.mark.parametrize(
    "data", [b"\xff" * 5_000_000, b"\x22\xff", b"\x22", field(4, b"\x2a\x7f"), b"\x0b\x0c", b"\x07"]
)
def test_bytes_that_are_no_message_are_an_invalid_argument(data):
    with pytest.raises(InputError):
        read_job(data, small_fabric())


@pytest.mark.parametrize("kind", [pb.Collective.ALL_TO_ALL, pb.Collective.BROADCAST])
def test_ranks_of_one_host_need_no_flow_and_are_counted_all_the_same(kind):
    one = pb.SubmitJobRequest(job_id="a", ranks=["h1-n0"] * 20_000)
    one.collectives.extend([pb.Collective(kind=kind, bytes=1, root=root) for root in range(1_000)])
    with pytest.raises(InputError, match="4,194,304, those on one host included"):
        read_job(one.SerializeToString(), small_fabric())


def test_phases_are_limited():
    phases = [pb.Collective(kind=pb.Collective.GATHER, bytes=1, phase=phase) for phase in range(1, 4_097)]
    wanted = message()
    wanted.collectives.extend(phases[:-1])
    assert len(read_job(wanted.SerializeToString(), small_fabric()).collectives) == 4_096
    wanted.collectives.append(phases[-1])
    with pytest.raises(InputError, match="collectives: 4,097 different phases; at most 4,096"):
        read_job(wanted.SerializeToString(), small_fabric())
    shape = pb.SuggestPlacementRequest(ranks=2, collectives=wanted.collectives[1:])
    assert len(read_shape(shape.SerializeToString()).collectives) == 4_096
    shape.collectives.add(kind=pb.Collective.GATHER, bytes=1)
    with pytest.raises(InputError, match="4,097 different phases"):
        read_shape(shape.SerializeToString())


def test_pins_are_limited():
    pinned = pb.SubmitJobRequest(job_id="a", ranks=[f"h{1 + rank % 8}-n0" for rank in range(137)], steering="PIN")
    pinned.collectives.add(kind=pb.Collective.ALL_TO_ALL, bytes=1)
    with pytest.raises(InputError, match="steering: more than 16,384 flows are pinned"):
        read_job(pinned.SerializeToString(), small_fabric())
    pinned.steering = pb.SOURCE_PORT
    read_job(pinned.SerializeToString(), small_fabric())
    one = pb.FlowDemand(src_rank=0, dst_rank=1, udp_source_port=50_000)
    pinned.collectives.add(kind=pb.Collective.CUSTOM, flows=[one] * 16_385)
    with pytest.raises(InputError, match="collectives: more than 16,384 flows are pinned"):
        read_job(pinned.SerializeToString(), small_fabric())


def test_a_vpc_of_the_most_endpoints_fits_a_message():
    longest = pb.Endpoint(
        ip="2001:0db8:0000:0000:0000:ffff:255.255.255.255"[:39], mac="02:" * 5 + "02", vtep_ip="255." * 3 + "255"
    )
    assert MAX_ENDPOINTS_OF_A_VPC * (longest.ByteSize() + 2) < MAX_MESSAGE_BYTES


async def test_a_message_past_the_servers_limit_is_resource_exhausted(controller):
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(controller.addresses["grpc"], options=options) as channel:
        send = channel.unary_unary("/heddle.v1.JobService/PreviewJob")
        error = await refused(send(bytes(MAX_MESSAGE_BYTES + 1)))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_hostile_request_is_an_invalid_argument_with_the_name_and_the_limit(controller):
    async with grpc.aio.insecure_channel(controller.addresses["grpc"]) as channel:
        error = await refused(channel.unary_unary("/heddle.v1.JobService/SubmitJob")(TOO_MANY["collectives"]))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "collectives: more than 16,384, the most that a request may have"


async def test_large_requests_are_read_in_a_thread(controller, monkeypatch):
    threads = []

    def noted(data, fabric):
        threads.append(threading.current_thread().name)
        return read_job(data, fabric)

    monkeypatch.setattr(jobs, "read_job", noted)
    small, large = message(), message()
    large.tenant = "t" * SMALL_BYTES
    await controller.jobs.PreviewJob(small)
    await refused(controller.jobs.PreviewJob(large))
    assert threads[0] == threading.current_thread().name
    assert threads[1].startswith("requests")


async def test_large_requests_that_wait_are_limited():
    limited = Counter[Limit]()
    reader, release = RequestReader(limited), threading.Event()
    data = bytes(SMALL_BYTES + 1)
    waiting = [asyncio.ensure_future(reader.read(lambda _: release.wait(60), data)) for _ in range(MAX_LARGE_REQUESTS)]
    await asyncio.sleep(0)
    with pytest.raises(BudgetExceededError, match="try again"):
        await reader.read(len, data)
    assert await reader.read(len, b"small") == 5
    assert limited == {Limit.LARGE_REQUESTS: 1}
    release.set()
    assert all(await asyncio.gather(*waiting))
    assert await reader.read(len, data) == len(data)


async def test_two_callers_with_as_many_large_requests_as_may_be_give_way_to_a_third():
    reader, release = RequestReader(Counter()), threading.Event()
    data = bytes(SMALL_BYTES + 1)

    async def read(name, number):
        begin_work(Place(name, f"connection {number}"))
        return await reader.read(lambda _: release.wait(60) and name, data)

    two = [asyncio.create_task(read("ab"[number % 2], number)) for number in range(MAX_LARGE_REQUESTS)]
    await asyncio.sleep(0)
    third = asyncio.create_task(read("c", 0))
    await asyncio.sleep(0)
    release.set()
    assert await third == "c"
    outcomes = Counter(type(each) for each in await asyncio.gather(*two, return_exceptions=True))
    assert outcomes == {str: MAX_LARGE_REQUESTS - 1, BudgetExceededError: 1}


async def test_a_caller_that_leaves_withdraws_its_request(controller):
    slow = controller.switches["leaf3"]
    before = slow.received[BARRIER_REQUEST]
    slow.withheld.add(BARRIER_REQUEST)
    first = asyncio.ensure_future(controller.jobs.SubmitJob(message("a")))
    while slow.received[BARRIER_REQUEST] == before:
        await asyncio.sleep(0.01)
    loop = controller.application.loop
    late = controller.jobs.SubmitJob(message("b"))
    while not loop.state.queue:
        await asyncio.sleep(0.01)
    late.cancel()
    while loop.state.queue:
        await asyncio.sleep(0.01)
    await slow.release()
    assert (await first).state == "running"
    assert [plan.job_id for plan in (await controller.jobs.ListJobs(pb.ListJobsRequest())).jobs] == ["a"]


async def test_a_call_whose_deadline_has_passed_is_not_begun(controller, monkeypatch):
    monkeypatch.setattr(jobs, "_time_left_s", lambda context: 0.0)
    error = await refused(controller.jobs.SubmitJob(message()))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert not controller.application.loop.state.jobs


async def test_a_preview_past_the_callers_share_is_resource_exhausted(controller):
    controller.application.previews.limit = 0
    error = await refused(controller.jobs.PreviewJob(message()))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "0 previews of ipv4:127.0.0.1:" in error.details()  # of one connection
    assert (await controller.jobs.SubmitJob(message())).state == "running"


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.1:5000", "ipv4:10.0.0.1"),
        ("ipv6:%5B::1%5D:5000", "ipv6:%5B::1%5D"),
        ("unix:/run/x:1", "unix:/run/x:1"),
    ],
)
def test_a_caller_is_an_address_without_its_port(peer, host):
    assert host_of(peer) == host


async def test_a_list_of_jobs_comes_in_pages_that_fit_a_message(controller, monkeypatch):
    for name in ("a", "b", "c"):
        await controller.jobs.SubmitJob(request_to(shift_job(name, ranks=4, lease_ms=60_000)))
    monkeypatch.setattr(jobs, "plans_to", lambda plans, *_: plans_to(plans, Room(flows=10, size_bytes=1)))
    seen, token = [], ""
    while token or not seen:
        page = await controller.jobs.ListJobs(pb.ListJobsRequest(page_token=token))
        seen.append([plan.job_id for plan in page.jobs])
        token = page.next_page_token
    assert seen == [["a"], ["b"], ["c"]]


def test_a_page_has_the_jobs_that_fit_it():
    plans = [replace(plan_of(5, name), reason="r" * 1_000) for name in ("a", "b", "c")]
    written = plans_to(plans, Room(flows=10, size_bytes=2_500))
    assert [(plan.job_id, plan.flows_truncated) for plan in written] == [("a", True), ("b", True)]


async def test_a_page_token_that_no_reply_had_is_an_invalid_argument(controller):
    for token in ("x", "1" * 5_000, "\u0663"):
        error = await refused(controller.jobs.ListJobs(pb.ListJobsRequest(page_token=token)))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_threads_that_compute_beside_the_event_loop_are_few():
    assert worker._WRITERS._max_workers == 1
