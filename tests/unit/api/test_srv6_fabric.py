"""A controller of a fabric whose packets name their paths: no OpenFlow port, no search, addresses in every reply."""

import asyncio
import json
from dataclasses import replace

import grpc
import pytest

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import SteeredBy
from heddle.programs.console.fabric import explain, topology
from heddle.programs.console.jobs import show
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.test_hash_fabric import read, served
from tests.unit.brain.driver import small_fabric

FABRIC = replace(small_fabric(), steered_by=SteeredBy.SRV6)
RING = pb.SubmitJobRequest(
    job_id="ring",
    ranks=[nic.id for nic in FABRIC.nics],
    collectives=[pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000_000)],
)


def named(links, nic: str, fabric=FABRIC) -> str:
    """Return the address of a path, written from the documentation."""
    ports = [link.split(">")[0].split(":")[1] for link in links[1:-1]]
    ports.append(str(fabric.nic_by_id[nic].port.number))
    return "fcbb:0:" + ":".join(f"e0{int(port):02x}" for port in ports) + "::"


async def test_a_job_runs_as_soon_as_it_is_planned_and_every_reply_names_its_paths():
    async with served(None, FABRIC) as (addresses, jobs):
        plan = await jobs.SubmitJob(RING, timeout=60)
        read = await jobs.GetJob(pb.GetJobRequest(job_id="ring"), timeout=10)
        listed = await jobs.ListJobs(pb.ListJobsRequest(), timeout=10)
        watched = await anext(aiter(jobs.WatchJob(pb.WatchJobRequest(job_id="ring"), timeout=10)))
        pages = [page async for page in jobs.StreamFlows(pb.GetJobRequest(job_id="ring"), timeout=10)]
    assert "openflow" not in addresses
    assert plan.state == "running"
    proof = plan.certificate
    assert (proof.by_construction, proof.probed, proof.probes, proof.rules_installed) == (True, False, 0, 0)
    assert len(plan.flows) == 8
    for flow in plan.flows:
        assert flow.sid == named(flow.links, flow.dst_nic)
        assert flow.reverse_sid == named(flow.reverse_links, flow.src_nic)
    for other in (read, listed.jobs[0], watched):
        assert list(other.flows) == list(plan.flows)
        assert other.certificate.by_construction
    assert list(pages[0].flows) == list(plan.flows)


async def test_pins_and_fixed_ports_are_refused_with_the_remedy():
    pinned = pb.SubmitJobRequest(job_id="pinned", ranks=RING.ranks, collectives=RING.collectives, steering="PIN")
    async with served(None, FABRIC) as (_, jobs):
        with pytest.raises(grpc.aio.AioRpcError, match="packets name their paths; use SOURCE_PORT"):
            await jobs.SubmitJob(pinned, timeout=60)


async def test_explain_topology_and_show_name_the_addresses(capsys):
    async with served(None, FABRIC) as (addresses, jobs):
        plan = await jobs.SubmitJob(RING, timeout=60)
        flow = next(flow for flow in plan.flows if len(flow.links) > 2)
        await asyncio.to_thread(explain, addresses["grpc"], flow.flow_id, as_json=False)
        await asyncio.to_thread(show, addresses["grpc"], "ring", as_json=False)
        await asyncio.to_thread(topology, addresses["grpc"], watch=False, as_json=False, sids=True)
        metrics, job = [
            await asyncio.to_thread(read, f"http://{addresses['http']}/{path}") for path in ("metrics", "api/jobs/ring")
        ]
    out = capsys.readouterr().out
    assert f"data is sent to {flow.sid}, ACKs to {flow.reverse_sid}" in out
    assert f"{flow.flow_id}: to {flow.sid}, " in out
    assert "packets name their paths: by construction" in out
    assert "\nleaf1 fcbb:0:3::/48\n" in out
    assert "\nleaf1:2>spine2:1 fcbb:0:e002::/48\n" in out
    assert "\nh1-n0 fcbb:0:3:e003::\n" in out
    assert b"heddle_switches_connected" not in metrics
    assert json.loads(job)["certificate"]["by_construction"]


async def test_another_steering_has_no_sids_to_print():
    fabric = replace(FABRIC, steered_by=SteeredBy.OPENFLOW)
    async with served(None, fabric) as (addresses, _):
        with pytest.raises(InputError, match="--sids: packets name no paths here"):
            await asyncio.to_thread(topology, addresses["grpc"], watch=False, as_json=False, sids=True)


async def test_a_restart_keeps_paths_and_another_block_renames_them(tmp_path):
    """A host that connects again gets the addresses of the file in force."""
    async with served(None, FABRIC, state=str(tmp_path)) as (_, jobs):
        plan = await jobs.SubmitJob(RING, timeout=60)
    other = replace(FABRIC, srv6=FABRIC.srv6._replace(block=0xFCBB0009))
    for fabric, block in ((FABRIC, "fcbb:0:"), (other, "fcbb:9:")):
        async with served(None, fabric, state=str(tmp_path)) as (_, jobs):
            again = await anext(aiter(jobs.WatchJob(pb.WatchJobRequest(job_id="ring"), timeout=10)))
        assert [list(flow.links) for flow in again.flows] == [list(flow.links) for flow in plan.flows]
        assert [flow.sid for flow in again.flows] == [flow.sid.replace("fcbb:0:", block) for flow in plan.flows]
