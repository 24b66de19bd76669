"""Make calls and stop (SIGSTOP) before reading replies.

`python -m tests.support.controllers.stopped_client ADDRESS COUNT JOB`: with a job it calls GetJob, else GetTopology.
"""

import asyncio
import os
import signal
import sys

import grpc

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

SENT_S = 0.05
SMALL = [("grpc.http2.bdp_probe", 0), ("grpc.max_receive_message_length", -1)]
"""The window of HTTP/2 stays at 64 KiB."""


async def main(address: str, count: int, job_id: str) -> None:
    async with grpc.aio.insecure_channel(address, options=SMALL) as channel:
        jobs, fabric = rpc.JobServiceStub(channel), rpc.FabricServiceStub(channel)
        await fabric.GetTopology(pb.GetTopologyRequest())
        if job_id:
            calls = [jobs.GetJob(pb.GetJobRequest(job_id=job_id)) for _ in range(count)]
        else:
            calls = [fabric.GetTopology(pb.GetTopologyRequest()) for _ in range(count)]
        await asyncio.sleep(SENT_S)
        os.kill(os.getpid(), signal.SIGSTOP)
        await asyncio.gather(*calls, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
