"""Work for callers in a thread: turns between callers, and replies that are kept for the same values."""

import asyncio
import os
import socket

from heddle.controller.api.peer import Places
from heddle.controller.api.worker import MAX_KEPT_BYTES, Replies, begin_work, in_worker
from heddle.controller.runtime.limits.fair_turns import Place
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.conftest import running
from tests.unit.api.test_call_limits import Context


async def test_the_work_for_a_caller_waits_for_one_piece_of_each_other():
    order = []

    async def call(name, member):
        begin_work(Place(name, member))
        await in_worker(order.append, name)

    flood = [call("flood", str(i % 8)) for i in range(64)]
    await asyncio.gather(*flood, call("other", ""))
    assert order.index("other") <= 3  # behind those that had the first two turns, and one of the flood


def test_a_reply_is_made_once_for_the_same_values_and_request():
    replies, made = Replies(), []

    def reply(basis, key, size=1):
        def write():
            made.append(key)
            return b"x" * size

        return replies.reply(basis, key, write)

    state, other = object(), object()
    for basis, key in (((state,), 1), ((state,), 1), ((state,), 2), ((other,), 1), ((other,), 1), ((other, state), 1)):
        assert reply(basis, key) == b"x"
    assert made == [1, 2, 1, 1]
    made.clear()
    for _ in range(2):
        assert len(reply((state,), "large", MAX_KEPT_BYTES + 1)) == MAX_KEPT_BYTES + 1
    assert made == ["large", "large"]  # too large to be kept


async def test_lists_of_jobs_follow_each_change():
    async with running() as controller:
        await controller.connect_all()
        ring = pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000)

        async def ids(**wanted):
            return [job.job_id for job in (await controller.jobs.ListJobs(pb.ListJobsRequest(**wanted))).jobs]

        for name in ("one", "two"):
            request = pb.SubmitJobRequest(job_id=name, tenant=name, ranks=["h1-n0", "h3-n0"], collectives=[ring])
            await controller.jobs.SubmitJob(request)
            assert (await controller.jobs.GetJob(pb.GetJobRequest(job_id=name))).tenant == name
        assert [await ids(), await ids(), await ids(tenant="two")] == [["one", "two"], ["one", "two"], ["two"]]
        await controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="one"))
        assert await ids() == ["two"]


def test_connections_of_one_user_on_loopback_have_one_place_together():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, places = server.getsockname(), Places()
        places.listening(*address)
        with socket.create_connection(address) as one, socket.create_connection(address) as other:
            names = [f"ipv4:127.0.0.1:{end.getsockname()[1]}" for end in (one, other)]
            assert [places.of(Context(name)) for name in names] == [Place(f"uid {os.getuid()}", name) for name in names]


def test_callers_elsewhere_have_their_identity_or_address():
    places = Places()
    places.listening("127.0.0.1", 1)
    for context, place in (
        (Context("ipv4:10.0.0.1:5000"), Place("ipv4:10.0.0.1", "ipv4:10.0.0.1:5000")),
        (Context("unix:"), Place("unix:", "unix:")),
        (Context("ipv4:127.0.0.1:7", peer_spiffe_id=[b"spiffe://heddle/f/tenant/a"]),
         Place("spiffe://heddle/f/tenant/a", "ipv4:127.0.0.1:7")),
        (Context("ipv4:127.0.0.1:7"), Place("ipv4:127.0.0.1:7", "ipv4:127.0.0.1:7")),
    ):  # fmt: skip
        assert places.of(context) == place
