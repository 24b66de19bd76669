"""A job with NCCL's algorithm over gRPC: submitted, suggested, refused; NICs name their NVLink domain."""

import grpc
import pytest

from heddle.v1 import heddle_pb2 as pb
from tests.support.fabrics.planner_cases import fabric_of
from tests.unit.api.conftest import running

RAILS = {"kind": "rail_optimised", "spines": 2, "leaves": 4, "hosts_per_leaf": 1, "nics_per_host": 2}


def ring(**more):
    return {"kind": "RING_ALL_REDUCE", "bytes": 3000, "algorithm": "NCCL", **more}


async def test_a_submitted_job_has_its_flows_by_every_rail_and_nics_their_domain():
    async with running(fabric_of(**RAILS, hosts_per_nvlink_domain=1)) as controller:
        await controller.connect_all()
        nics = (await controller.fabric.GetTopology(pb.GetTopologyRequest())).nics
        assert {nic.id: nic.nvlink_domain for nic in nics} == {
            "h1-n0": "nvl1", "h1-n1": "nvl1", "h2-n0": "nvl2", "h2-n1": "nvl2",
        }  # fmt: skip
        shape = pb.SuggestPlacementRequest(ranks=4, collectives=[ring()])
        (place,) = (await controller.jobs.SuggestPlacement(shape)).placements
        request = pb.SubmitJobRequest(job_id="a", ranks=place.nics, collectives=[ring()])
        plan = await controller.jobs.SubmitJob(request)
        found = sorted((flow.src_nic, flow.dst_nic, flow.queue_pair) for flow in plan.flows)
        both = [(f"h{a}-n{rail}", f"h{b}-n{rail}") for a, b in ((1, 2), (2, 1)) for rail in (0, 1)]
        assert found == [(*pair, channel) for pair in both for channel in (0, 1)]
        request.job_id = "b"
        del request.ranks[3:]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await controller.jobs.SubmitJob(request)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "collectives[0].algorithm: the hosts of the job are unequal" in refused.value.details()
