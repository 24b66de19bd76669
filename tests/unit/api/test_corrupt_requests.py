"""Bytes that are no message of a method's type are refused as such, without a traceback in the log."""

import grpc
import pytest

from tests.unit.api.conftest import running

CORRUPT = b"\xff\xff\xff"


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("unary_unary", "heddle.v1.JobService/ListJobs"),
        ("unary_stream", "heddle.v1.FabricService/WatchTopology"),
        ("stream_unary", "heddle.v1.JobService/ReportFlows"),
        ("stream_stream", "heddle.v1.GatewayService/Attach"),
        ("stream_stream", "heddle.v1.ProbeService/Attach"),
        ("unary_unary", "grpc.health.v1.Health/Check"),
        ("unary_stream", "grpc.health.v1.Health/Watch"),
        ("stream_stream", "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
    ],
)
async def test_a_corrupt_request_is_an_invalid_argument_without_a_traceback(caplog, controller, kind, method):
    call = getattr(controller.channel, kind)(f"/{method}")
    given = call(iter([CORRUPT]) if kind.startswith("stream") else CORRUPT, timeout=20)
    assert await given.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert not [record for record in caplog.records if record.exc_info]


async def test_an_ipv6_address_is_printed_in_brackets():
    async with running(grpc_address="[::1]:0") as controller:
        assert controller.addresses["grpc"].startswith("[::1]:")
