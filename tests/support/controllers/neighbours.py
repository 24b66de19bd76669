"""Load the ports of a controller as a hostile client would.

`python -m tests.support.controllers.neighbours KIND ADDRESSES COUNT` runs until its input ends.

ADDRESSES are JSON, by port: openflow, grpc and http. KIND is `idle` (connections that send nothing), `slow` (a byte now
and then), `submits` (so many SubmitJob at once, again and again; NICs as JSON on standard input) or `flood` (HTTP
requests and OpenFlow messages as fast as they are taken). It prints a line when the load is there, and ends with its
standard input.
"""

import asyncio
import contextlib
import json
import os
import resource
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import grpc

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

PREFACE = {
    "openflow": bytes([4, 0, 0, 8, 0, 0, 0, 1]),
    "grpc": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
}
ECHO = bytes([4, 2, 0, 8, 0, 0, 0, 2])
"""An OpenFlow echo request."""
SLOW_S = 0.5
AGAIN_S = 2.0
NICENESS = 19
FLOODERS = 8

Addresses = Mapping[str, str]


async def opened(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def again(each: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do something again whenever the controller ends it."""
    while True:
        with contextlib.suppress(OSError, EOFError):
            await each()
        await asyncio.sleep(AGAIN_S)


async def idle(address: str) -> None:
    reader, writer = await opened(address)
    try:
        while await reader.read(1 << 16):
            pass
    finally:
        writer.close()


async def slow(port: str, address: str) -> None:
    reader, writer = await opened(address)
    try:
        for byte in PREFACE[port]:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(SLOW_S)
        await reader.read()
    finally:
        writer.close()


async def flood(port: str, address: str) -> None:
    reader, writer = await opened(address)
    try:
        writer.write(PREFACE[port])
        while port == "openflow":
            writer.write(ECHO * 100)
            await writer.drain()
        await reader.read()
    finally:
        writer.close()


async def submits(address: str, nics: list[str], count: int) -> None:
    """Submit jobs of one pair of NICs with a short lease, all of them at once."""
    ring = pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000)
    async with grpc.aio.insecure_channel(address) as channel:
        stub, number = rpc.JobServiceStub(channel), 0

        async def one(job_id: str) -> None:
            request = pb.SubmitJobRequest(job_id=job_id, ranks=nics, collectives=[ring], lease_ms=1_000)
            with contextlib.suppress(grpc.RpcError):
                await stub.SubmitJob(request, timeout=30)

        while True:
            await asyncio.gather(*(one(f"flood-{number}-{each}") for each in range(count)))
            number += 1


async def load(kind: str, addresses: Addresses, count: int, nics: list[str]) -> None:
    if kind == "submits":
        work = [submits(addresses["grpc"], nics, count)]
    elif kind == "idle":
        work = [again(partial(idle, address)) for address in addresses.values() for _ in range(count)]
    elif kind == "slow":
        work = [again(partial(slow, p, a)) for p, a in addresses.items() for _ in range(count)]
    else:
        ports = ("openflow", "http")
        work = [again(partial(flood, p, addresses[p])) for p in ports for _ in range(FLOODERS)]
    tasks = [asyncio.create_task(one) for one in work]
    await asyncio.sleep(1.0)
    print("loaded", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()


def main() -> None:
    kind, addresses, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.nice(NICENESS)
    nics = json.loads(sys.stdin.readline())
    asyncio.run(load(kind, addresses, count, nics))
    os._exit(0)


if __name__ == "__main__":
    main()
