"""Paths that spraying NICs deny, reported by their hosts: two witnesses move jobs off a cable, one does nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import grpc
import pytest

from heddle.controller.model.address import ip_text, ipv6_text
from heddle.controller.model.srv6 import Sids
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.fabrics.path_sets import SPINES, four_by_four, links_over
from tests.unit.api.test_hash_fabric import read, served

FABRIC = four_by_four()
NICS, SIDS = FABRIC.nics, Sids(FABRIC)
CUT = "leaf1:3>spine3:1"
RING = pb.SubmitJobRequest(
    job_id="ring", ranks=[NICS[leaf * 4 + n].id for n in range(4) for leaf in range(4)],
    collectives=[pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000_000)],
)  # fmt: skip


def flow(src: int, dst: int, denied: Iterable[int]) -> pb.ObservedFlow:
    """Return a queue pair that sprays over all spines, and denies some of them."""
    there = NICS[src].id, NICS[dst].id
    paths = [
        pb.ObservedPath(sid=ipv6_text(SIDS.destination(links_over(FABRIC, *there, n), there[1])), denied=n in denied)
        for n in range(SPINES)
    ]
    return pb.ObservedFlow(
        src_ip=ip_text(NICS[src].ip), dst_ip=ip_text(NICS[dst].ip), udp_source_port=0xC000, src_qpn=src + 1,
        dst_qpn=dst + 100, paths=paths,
    )  # fmt: skip


class Site:
    """A controller with a ring over all NICs, and the generations of its plan as they are published."""

    def __init__(self, addresses, jobs) -> None:
        self.addresses, self.jobs = addresses, jobs
        self.plans: asyncio.Queue[pb.JobPlan] = asyncio.Queue()

    async def watch(self) -> None:
        async for plan in self.jobs.WatchJob(pb.WatchJobRequest(job_id="ring")):
            self.plans.put_nowait(plan)

    async def report(self, host: str, *flows: pb.ObservedFlow) -> None:
        stream = self.jobs.ReportFlows()
        await stream.write(pb.ObservedFlows(host=host, flows=flows))
        await stream.done_writing()
        await stream

    async def plan(self) -> pb.JobPlan:
        return await self.jobs.GetJob(pb.GetJobRequest(job_id="ring"), timeout=10)

    async def events(self) -> list[str]:
        async with grpc.aio.insecure_channel(self.addresses["grpc"]) as channel:
            stub = rpc.TelemetryServiceStub(channel)
            found = [each async for each in stub.WatchEvents(pb.WatchEventsRequest(history_only=True), timeout=10)]
        return [event.text for event in found if event.subject == CUT]

    async def counted(self, name: str) -> int:
        page = (await asyncio.to_thread(read, f"http://{self.addresses['http']}/metrics")).decode()
        (line,) = [line for line in page.splitlines() if line.startswith(f"heddle_flow_reports_{name}_total ")]
        return int(line.split()[1])


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    async with served(None, FABRIC) as (addresses, jobs):
        await jobs.SubmitJob(RING, timeout=60)
        here = Site(addresses, jobs)
        watching = asyncio.create_task(here.watch())
        try:
            assert (await asyncio.wait_for(here.plans.get(), 120)).generation == 1
            yield here
        finally:
            watching.cancel()


def crosses(plan: pb.JobPlan) -> bool:
    links = {FABRIC.cable_by_link[CUT].up_link, FABRIC.cable_by_link[CUT].down_link}
    return any(links & {*flow.links, *flow.reverse_links} for flow in plan.flows)


def host(nic: int) -> str:
    return NICS[nic].host


async def test_two_hosts_that_deny_paths_over_a_cable_move_jobs_off_it():
    async with site() as here:
        assert crosses(await here.plan())
        await here.report(host(0), flow(0, 5, {2}))
        begun_s = time.perf_counter()
        await here.report(host(1), flow(1, 9, {2}))
        plan = await asyncio.wait_for(here.plans.get(), 120)
        print(f"FIGURES new plan {(time.perf_counter() - begun_s) * 1e3:.0f} ms after the second witness")
        assert plan.generation == 2
        assert not crosses(plan)
        assert len(plan.flows) == 16
        (text,) = await here.events()
        assert f"NICs of {host(0)} and {host(1)} deny their paths over it" in text
        assert await here.counted("denied_paths") == 2


async def test_a_host_that_denies_every_path_of_its_jobs_moves_nothing():
    async with site() as here:
        await here.report(host(0), *(flow(0, dst, range(SPINES)) for dst in range(4, 16)))
        await here.report(host(0), *(flow(0, dst, range(1, SPINES)) for dst in range(4, 16)))
        assert (await here.plan()).generation == 1
        assert await here.events() == []
        assert await here.counted("denied_paths") == 12 * 7


async def test_a_host_is_no_witness_of_the_nics_of_another():
    async with site() as here:
        await here.report(host(0), flow(0, 5, {2}))
        await here.report(host(3), flow(1, 9, {2}))
        assert (await here.plan()).generation == 1
        assert await here.counted("unknown_paths") == SPINES


async def test_paths_of_no_shortest_path_are_counted_and_move_nothing():
    async with site() as here:
        for nic in (0, 1):
            strange = flow(nic, 5 + 4 * nic, {2})
            for path in strange.paths:
                path.sid = "fcbb:0:dead::"
            await here.report(host(nic), strange)
        assert (await here.plan()).generation == 1
        assert await here.counted("unknown_paths") == 2 * SPINES


@pytest.mark.parametrize("sid", ["", "10.0.0.1"])
async def test_a_path_without_an_address_is_refused_by_its_place(sid):
    async with site() as here:
        wrong = flow(0, 5, ())
        wrong.paths[1].sid = sid
        with pytest.raises(grpc.aio.AioRpcError, match=r"flows\[0\].paths\[1\].sid: .* is no IPv6 address"):
            await here.report(host(0), wrong)
