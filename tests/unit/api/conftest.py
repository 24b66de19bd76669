"""A whole controller on loopback: real gRPC, real OpenFlow bytes, fake switches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from heddle.controller.app import Application
from heddle.controller.config.service import ServiceConfig
from heddle.testing.switches.openflow_switch import FakeSwitch
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.telemetry.telemetry_feed import TelemetryFeed
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.unit.brain.driver import small_fabric


class Running:
    """A started controller, its switches and the stubs of a client."""

    def __init__(self, application, addresses, channel):
        self.application = application
        self.addresses = addresses
        self.channel = channel
        self.jobs = rpc.JobServiceStub(channel)
        self.fabric = rpc.FabricServiceStub(channel)
        self.telemetry = rpc.TelemetryServiceStub(channel)
        self.feed = TelemetryFeed(
            application.feeds.telemetry,
            application.loop.state.fabric,
            configured=application.feeds.telemetry.configured,
        )
        self.switches: dict[str, FakeSwitch] = {}

    async def connect(self, switch_id: str, tables=None) -> FakeSwitch:
        """Let a switch of the fabric connect and wait until it holds the wanted rules."""
        host, port = self.addresses["openflow"].split(":")
        datapath_id = self.application.loop.state.fabric.switch_by_id[switch_id].datapath_id
        self.switches[switch_id] = switch = FakeSwitch(datapath_id, tables=tables)
        await switch.connect(host, int(port))
        return switch

    async def connect_all(self) -> None:
        for switch in self.application.loop.state.fabric.switches:
            await self.connect(switch.id)
        wanted = {switch: len(rules.rules) for switch, rules in self.application.loop.state.underlay.items()}
        await self.until(lambda topology: {switch.id: switch.rules for switch in topology.switches} == wanted)

    async def until(self, holds) -> pb.Topology:
        """Watch the topology until a condition holds."""
        async for topology in self.fabric.WatchTopology(pb.GetTopologyRequest(), timeout=20):
            if holds(topology):
                return topology
        raise AssertionError("the topology's stream ended")

    async def close(self) -> None:
        for switch in self.switches.values():
            await switch.disconnect()


@asynccontextmanager
async def running(fabric=None, grpc_address="127.0.0.1:0", **config) -> AsyncIterator[Running]:
    fabric = fabric or small_fabric()
    application = Application(
        fabric,
        ServiceConfig(**{"openflow": "127.0.0.1:0", "grpc": grpc_address, "http": "127.0.0.1:0", **config}),
        ThreadPlanner(fabric),
        ThreadCompiler(fabric),
    )
    async with application.started() as addresses, grpc.aio.insecure_channel(addresses["grpc"]) as channel:
        found = Running(application, addresses, channel)
        try:
            yield found
        finally:
            await found.close()


@pytest.fixture
async def controller():
    async with running() as found:
        await found.connect_all()
        yield found
