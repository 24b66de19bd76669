"""A client that loads every port does not keep others from theirs; `heddle bench loop` measures how long they wait."""

import asyncio
import contextlib
import json
import sys
import urllib.request

import pytest

from heddle.controller.runtime.limits.limited import Limit
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.conftest import running

HELD_BY = {"idle": Limit.SWITCH_GAVE_WAY}
"""The limit that a load meets; submissions wait for each other, and a flood is read no faster than it may be."""


@contextlib.asynccontextmanager
async def loaded(controller, kind, count):
    nics = [nic.id for nic in controller.application.loop.state.fabric.nics]
    command = (
        sys.executable,
        "-m",
        "tests.support.controllers.neighbours",
        kind,
        json.dumps(controller.addresses),
        str(count),
    )
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps([nics[0], nics[-1]]).encode() + b"\n")
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"loaded\n"
        yield
    finally:
        process.kill()
        await process.wait()
        process.stdin.close()


async def limited(controller, limit):
    """Wait until a limit has refused something."""
    async with asyncio.timeout(60):
        while limit is not None and not controller.application.limited[limit]:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("kind", "count"),
    [("idle", 600), ("flood", 1), ("submits", 3_000), pytest.param("slow", 200, marks=pytest.mark.soak)],
)
async def test_a_second_client_is_served_on_every_port(kind, count):
    async with running() as controller, loaded(controller, kind, count):
        await controller.connect_all()
        nics = [nic.id for nic in controller.application.loop.state.fabric.nics]
        ring = pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000)
        request = pb.SubmitJobRequest(job_id="second", ranks=[nics[1], nics[-2]], collectives=[ring])
        assert (await controller.jobs.SubmitJob(request, timeout=60)).state
        page = f"http://{controller.addresses['http']}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(page, timeout=60).read().decode())
        assert 'heddle_limited_total{port="openflow",limit="gave_way"}' in text
        await limited(controller, HELD_BY.get(kind))
        await controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="second"), timeout=60)
