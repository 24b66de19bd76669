"""A whole controller with a journal: what it refuses while it cannot write, and what never depends on the journal."""

import asyncio
import time

import grpc
import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.controller.runtime.ports import EPOCH_SHIFT
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.unit.api.conftest import running

DAY_MS = 86_400_000
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def vpc(name: str, vni: int, endpoints: int = 0) -> pb.Vpc:
    found = pb.Vpc(id=name, vni=vni, network="business")
    found.subnets.add(cidr="10.0.0.0/8", gateway_ip="10.255.255.254")
    for number in range(endpoints):
        ip = f"10.0.{number // 250}.{number % 250 + 1}"
        found.endpoints.add(ip=ip, mac=f"02:00:00:00:{number // 250:02x}:{number % 250:02x}", vtep_ip="10.0.0.1")
    return found


def job(name: str, steering: str = "PIN") -> pb.SubmitJobRequest:
    collective = pb.Collective(kind="SEND_RECV", bytes=1_000_000)
    collective.pairs.add(src_rank=0, dst_rank=1)
    return pb.SubmitJobRequest(
        job_id=name, ranks=["h1-n0", "h5-n0"], collectives=[collective], steering=steering, lease_ms=60_000
    )


async def refusal(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


async def names(vpcs) -> list[str]:
    return [each.id for each in (await vpcs.ListVpcs(pb.ListVpcsRequest())).vpcs]


async def test_a_full_disk_refuses_new_work_and_nothing_else_and_all_is_written_when_there_is_room(tmp_path):
    async with running(state=str(tmp_path)) as found:
        await found.connect_all()
        vpcs = rpc.VpcServiceStub(found.channel)
        await found.jobs.SubmitJob(job("runs"))
        await vpcs.ApplyVpc(vpc("small", 1))
        disk = found.application.gate.journal.store._connection
        pages = disk.execute("PRAGMA page_count").fetchone()[0]
        disk.execute(f"PRAGMA max_page_count = {pages}")
        code, text = await refusal(vpcs.ApplyVpc(vpc("large", 2, endpoints=2_000)))
        assert code is UNAVAILABLE
        assert "journal.sqlite cannot be written (database or disk is full)" in text
        code, text = await refusal(found.jobs.SubmitJob(job("new")))
        assert code is UNAVAILABLE
        assert "nothing new is begun" in text
        await found.jobs.RenewJob(pb.RenewJobRequest(job_id="runs"))
        assert (await found.jobs.GetJob(pb.GetJobRequest(job_id="runs"))).state == "running"
        assert (await found.jobs.PreviewJob(job("preview"))).state == "planned"
        found.switches["leaf1"].set_port(1, up=False)  # what runs is repaired
        watch = found.jobs.WatchJob(pb.WatchJobRequest(job_id="runs"), timeout=30)
        async for plan in watch:
            if "leaf1:1>spine1:1" not in plan.flows[0].links:
                break
        watch.cancel()
        disk.execute(f"PRAGMA max_page_count = {pages + 10_000}")
        while found.application.gate.failure:
            await asyncio.sleep(0.05)
        await vpcs.ApplyVpc(vpc("large", 2, endpoints=2_000))
    async with running(state=str(tmp_path)) as found:
        assert await names(rpc.VpcServiceStub(found.channel)) == ["large", "small"]
        again = await found.jobs.GetJob(pb.GetJobRequest(job_id="runs"))
        assert list(again.flows) == list(plan.flows)


async def test_generations_of_roles_and_networks_grow_while_the_clock_goes_back(tmp_path, monkeypatch):
    generations, networks = [], []
    tables = None
    unix_ns = time.time_ns
    for days in (0, 3, 400):
        monkeypatch.setattr(
            "heddle.controller.app.time.time_ns", lambda days=days: unix_ns() - days * DAY_MS * 1_000_000
        )
        async with running(state=str(tmp_path)) as found:
            switch = await found.connect("leaf1", tables)
            await found.until(lambda topology: any(each.connected for each in topology.switches))
            tables = switch.tables
            await rpc.VpcServiceStub(found.channel).ApplyVpc(vpc(f"v{days}", days + 1))
            generations.append(switch.generation)
            networks.append(found.application.loop.state.networks.generation)
    assert generations == [1 << EPOCH_SHIFT | revision for revision in (1, 2, 3)]
    assert networks == sorted(set(networks))


async def test_a_clock_set_forward_ends_no_lease_and_leases_are_shown_by_the_clock_as_it_is(monkeypatch):
    async with running() as found:
        await found.connect_all()
        before = await found.jobs.SubmitJob(job("runs"))
        unix_ns = time.time_ns
        monkeypatch.setattr("heddle.controller.app.time.time_ns", lambda: unix_ns() + 2 * 3_600_000 * 1_000_000)
        await asyncio.sleep(1.5)  # a tick of the loop
        after = await found.jobs.GetJob(pb.GetJobRequest(job_id="runs"))
        assert abs(after.lease_expires_unix_ms - before.lease_expires_unix_ms - 2 * 3_600_000) < 1_000


async def test_a_grpc_port_that_is_taken_is_refused():
    async with running() as found:
        with pytest.raises(PrerequisiteError, match="gRPC cannot listen on"):
            async with running(grpc_address=found.addresses["grpc"]):
                pass
