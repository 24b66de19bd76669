"""What no path set can be made for: a running controller refuses it with one clear line, and its jobs go on."""

import json

import grpc
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.v1 import heddle_pb2 as pb
from tests.support.fabrics.bad_path_sets import ONE_PLANE, TOO_MANY, TWICE, document
from tests.unit.api.conftest import running


async def test_a_running_controller_refuses_both_and_its_jobs_go_on():
    async with running(parse_fabric(json.dumps(document(steering="srv6")), "fabric.yaml")) as found:
        collectives = [pb.Collective(kind="RING_ALL_REDUCE", bytes=1, paths_per_flow=2)]
        ranks = [f"h{host}-n0" for host in (1, 2, 3, 4)]
        await found.jobs.SubmitJob(pb.SubmitJobRequest(job_id="a", ranks=ranks, collectives=collectives))
        collectives[0].paths_per_flow = 3
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await found.jobs.SubmitJob(pb.SubmitJobRequest(job_id="b", ranks=ranks, collectives=collectives))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details() == f"job b: collectives[0].paths_per_flow: {TOO_MANY}"
        text = json.dumps(document(steering="srv6", hosts=[TWICE]))
        with pytest.raises(grpc.aio.AioRpcError) as unfit:
            await found.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text, dry_run=True))
        assert unfit.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert ONE_PLANE in (unfit.value.details() or "")
        assert (await found.jobs.GetJob(pb.GetJobRequest(job_id="a"))).state == "running"
