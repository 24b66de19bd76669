"""A whole controller, started again with another fabric file while a job runs: real OpenFlow bytes, fake switches."""

import asyncio
from contextlib import closing

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import InputError
from heddle.controller.rules.trace import Packet, Tracer
from heddle.controller.store.journal import SqliteStore
from heddle.v1 import heddle_pb2 as pb
from tests.support.fabrics.grown_files import LEAF_MORE, RACK_SLOWER, SLOWER, SPINE_MORE, SPINES_BEYOND, YARD
from tests.unit.api.conftest import running

MESH = pb.SubmitJobRequest(
    job_id="mesh",
    ranks=[f"h{number}-n0" for number in range(1, 7)],
    collectives=[pb.Collective(kind="ALL_TO_ALL", bytes=3_000)],
)
BESIDE = pb.SubmitJobRequest(job_id="beside", ranks=MESH.ranks, collectives=MESH.collectives)
READ = pb.GetJobRequest(job_id="mesh")


def started(text: str, directory):
    return running(parse_fabric(text, "yard.yaml"), state=str(directory))


def off_their_paths(found, plan: pb.JobPlan) -> list[str]:
    """Return the flows whose data or ACKs the rules that switches hold do not lead over the planned path."""
    fabric = found.application.loop.state.fabric
    tracer = Tracer(fabric, {name: switch.tables.rules() for name, switch in found.switches.items()})
    nics = fabric.nic_by_id

    def taken(source: str, target: str, port: int) -> list[str]:
        packet = Packet.roce(src_ip=nics[source].ip, dst_ip=nics[target].ip, udp_src=port)
        return list(tracer.trace(source, packet).links)

    return [
        flow.flow_id
        for flow in plan.flows
        if taken(flow.src_nic, flow.dst_nic, flow.udp_source_port) != list(flow.links)
        or taken(flow.dst_nic, flow.src_nic, flow.reverse_udp_source_port) != list(flow.reverse_links)
    ]


def ports_in(found) -> list[tuple[tuple[str, ...], int]]:
    """Return the paths and ports of the job's flows with which a controller has ended."""
    return [(each.links, each.udp_source_port) for each in found.application.loop.state.jobs["mesh"].flows.flows]


def held(directory) -> dict[tuple[str, str], bytes]:
    with closing(SqliteStore(directory / "journal.sqlite")) as store:
        return dict(store.read())


async def test_rates_and_certificate_follow_the_file_where_ports_mean_the_same(tmp_path):
    async with started(YARD, tmp_path) as found:
        await found.connect_all()
        plan = await found.jobs.SubmitJob(MESH)
    async with started(RACK_SLOWER, tmp_path) as found:
        while (again := await found.jobs.GetJob(READ)).certificate.max_link_utilisation < 1:
            await asyncio.sleep(0.05)
    assert again.certificate.max_link_utilisation == pytest.approx(2 * plan.certificate.max_link_utilisation)
    assert again.reason.startswith("the fabric file has changed")
    assert [(each.links, each.udp_source_port) for each in again.flows] == [
        (each.links, each.udp_source_port) for each in plan.flows
    ]
    assert min(each.rate_bps for each in again.flows) < min(each.rate_bps for each in plan.flows)


async def test_every_flow_of_a_running_job_is_on_its_planned_path_or_the_file_is_refused_with_the_job_named(tmp_path):
    async with started(YARD, tmp_path) as found:
        await found.connect_all()
        plan = await found.jobs.SubmitJob(MESH)
        assert off_their_paths(found, plan) == []
        generation = found.switches["leaf1"].generation
    ended_with = ports_in(found)
    before = held(tmp_path)
    with pytest.raises(InputError, match=r"1 running job, mesh \(\d+ of 30 flows\), would leave planned paths"):
        async with started(SPINES_BEYOND, tmp_path):
            pass
    assert held(tmp_path) == before
    for number, text in enumerate((LEAF_MORE, SLOWER, SPINE_MORE), 1):
        async with started(text, tmp_path) as found:
            await found.connect_all()
            again = await found.jobs.GetJob(READ)
            assert [(tuple(each.links), each.udp_source_port) for each in again.flows] == ended_with, text
            assert off_their_paths(found, again) == []
            assert found.switches["leaf1"].generation == generation + number  # what was refused has taken none
            beside = await found.jobs.SubmitJob(
                pb.SubmitJobRequest(job_id="beside", ranks=MESH.ranks, collectives=MESH.collectives)
            )
            assert off_their_paths(found, beside) == [], "new jobs are planned by the layout of those that run"
            await found.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="beside"))
        ended_with = ports_in(found)  # the planner may have moved flows of its own accord
    assert any(link.startswith("spine3") for each in beside.flows for link in each.links)
    async with started(SPINE_MORE, tmp_path) as found:
        await found.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="mesh"))
    async with started(SPINES_BEYOND, tmp_path) as found:
        assert not (await found.jobs.ListJobs(pb.ListJobsRequest())).jobs
