"""A controller through a day in a minute.

`python -m tests.support.controllers.compressed_day HOURS STEPS FOLDER [--top]`.

The clock of the brain is this program's. Each of STEPS an hour has a job that arrives and one that is released or
outlives its lease, telemetry, streams that come and go, refused calls; and some of them a cable that flaps, a VPC, a
host, the page; over real gRPC and OpenFlow. Journal, history, recording and audit file are in FOLDER. What is kept up
to a number is kept up to a small one, so that it is reached at once. A JSON line per simulated hour has the bytes that
Python holds (tracemalloc) and the resident size. `--top` prints the lines of code that hold more at the end than after
two hours.
"""

import asyncio
import contextlib
import gc
import json
import resource
import sys
import tracemalloc
import urllib.request
from pathlib import Path

import grpc

import heddle.controller.app
from heddle.controller.api.translate import request_to
from heddle.controller.brain.transactions import replan
from heddle.controller.model.event import Tick
from heddle.controller.recording import recorder
from heddle.controller.runtime import feeds, owners, telemetry
from heddle.controller.runtime.clock import SystemClock
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.gateway.gateway_session import GatewaySession
from tests.fakes.telemetry.telemetry_feed import TelemetryFeed
from tests.unit.api.conftest import Running, running
from tests.unit.brain.driver import shift_job

HOUR_MS = 3_600_000
LEASE_STEPS = 8
RELEASE_AFTER = 5
"""Steps after which two jobs of three are released; the others' leases end."""
FEW = 50
"""How many values are kept of what is kept up to a number."""
RECORDED_BYTES = 1 << 16
"""A file of the recording ends after so many: it holds its values until then, and a slow machine records more ticks."""


class Clock(SystemClock):
    """The machine's clocks, and the time that was skipped."""

    skipped_ms = 0

    def unix_ms(self) -> int:
        return super().unix_ms() + self.skipped_ms

    def steady_unix_ms(self) -> int:
        return super().steady_unix_ms() + self.skipped_ms


class Day:
    """The events of one step after the other."""

    def __init__(self, site: Running, step_ms: int) -> None:
        self._site, self._step_ms = site, step_ms
        self._loop = site.application.loop
        self._vpcs = rpc.VpcServiceStub(site.channel)
        self._feed = TelemetryFeed(site.application.feeds.telemetry, self._loop.state.fabric)
        self._feed.now_ns = self._loop.now_unix_ms() * 1_000_000

    async def step(self, number: int) -> None:
        """Skip the time of a step, and do what happens in it."""
        Clock.skipped_ms += self._step_ms
        self._loop.post(Tick())
        await self._jobs(number)
        await self._streams(f"job-{number}")
        self._telemetry(number)
        if number % 3 == 0:
            await self._flap(number)
        if number % 5 == 0:
            await self._networks(number)
        if number % 10 == 0:
            await asyncio.to_thread(self._page)

    async def _jobs(self, number: int) -> None:
        jobs = self._site.jobs
        request = shift_job(f"job-{number}", by=2 + 2 * (number % 3), lease_ms=LEASE_STEPS * self._step_ms)
        await jobs.SubmitJob(request_to(request))
        await jobs.PreviewJob(request_to(shift_job("preview", by=4)))
        before = number - RELEASE_AFTER
        if before >= 0 and before % 3:
            await jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=f"job-{before}"))
        with contextlib.suppress(grpc.RpcError):
            await jobs.GetJob(pb.GetJobRequest(job_id=f"unknown-{number}"))
        await self._site.fabric.Explain(pb.ExplainRequest(flow_id=f"job-{number}/0/0-{2 + 2 * (number % 3)}/0"))

    async def _streams(self, job_id: str) -> None:
        """Open streams, read one message where there is one, and leave."""
        site, since_ns = self._site, (self._loop.now_unix_ms() - 2 * self._step_ms) * 1_000_000
        streams = [
            site.jobs.WatchJob(pb.WatchJobRequest(job_id=job_id)),
            site.fabric.WatchTopology(pb.GetTopologyRequest()),
            site.telemetry.WatchEvents(pb.WatchEventsRequest(since_unix_ns=since_ns, history_only=True)),
        ]
        for stream in streams:
            await stream.read()
            stream.cancel()

    def _telemetry(self, number: int) -> None:
        for place, port in enumerate(self._feed.ports.ports):
            self._feed.grow(port.name, tx_bytes=10**9 + number, rx_bytes=10**9 + place)
        paused = self._feed.ports.ports[number % len(self._feed.ports.ports)].name
        self._feed.queue(paused, pfc_rx_frames=number % 2 * 1_000, paused_ns=number % 2 * 10**9)
        self._feed.scan(self._step_ms / 1000)

    async def _flap(self, number: int) -> None:
        cables = self._loop.state.fabric.cables
        port = cables[number % len(cables)].upper
        for up in (False, True):
            self._site.switches[port.switch].set_port(port.number, up=up)
            await asyncio.sleep(0.02)

    async def _networks(self, number: int) -> None:
        """Replace a VPC by another, and let a host come and go."""
        name = f"vpc-{number}"
        subnet = pb.Subnet(cidr="10.1.0.0/24", gateway_ip="10.1.0.1")
        ends = [pb.Endpoint(ip="10.1.0.5", mac="02:00:00:00:00:05", vtep_ip="10.0.0.2")]
        session = GatewaySession(self._site.channel, f"host-{number}", "10.0.0.2", "host")
        await self._vpcs.ApplyVpc(pb.Vpc(id=name, vni=number + 1, subnets=[subnet], endpoints=ends))
        await self._vpcs.DeleteVpc(pb.DeleteVpcRequest(id=name))
        session.call.cancel()
        await session.ended()

    def _page(self) -> None:
        for path in ("/metrics", "/healthz"):
            with urllib.request.urlopen(f"http://{self._site.addresses['http']}{path}", timeout=60) as reply:
                reply.read()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def pass_hours(hours: int, steps: int, folder: Path, *, has_top: bool) -> None:
    """Run a controller for so many simulated hours, and print what it holds after each."""
    config = {
        "state": str(folder / "state"), "history": str(folder / "history"), "history_megabytes": 1,
        "record": str(folder / "record"), "record_megabytes": 1, "audit_megabytes": 1,
    }  # fmt: skip
    before = None
    async with running(**config) as site:
        await site.connect_all()
        day = Day(site, HOUR_MS // steps)
        for hour in range(1, hours + 1):
            for step in range(steps):
                await day.step((hour - 1) * steps + step)
            gc.collect()
            held = tracemalloc.get_traced_memory()[0]
            line = {"hour": hour, "python_bytes": held, "resident_bytes": resident_bytes()}
            print(json.dumps(line), flush=True)
            if has_top and hour == 2:
                before = tracemalloc.take_snapshot()
        if before is not None:
            for grown in tracemalloc.take_snapshot().compare_to(before, "lineno")[:25]:
                print(grown, file=sys.stderr)


def main() -> None:
    heddle.controller.app.SystemClock = Clock  # type: ignore[attr-defined]
    feeds.MAX_ANNOUNCED = telemetry.MAX_RECENT = replan.MAX_RECORDS = owners.MAX_JOBS = FEW
    recorder.MAX_RAW_BYTES = RECORDED_BYTES
    tracemalloc.start()
    hours, steps, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    asyncio.run(pass_hours(hours, steps, folder, has_top="--top" in sys.argv))


if __name__ == "__main__":
    main()
