"""gRPC by mutual TLS: whose calls are served, and what happens when files change under running calls."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from heddle.controller.app import Application
from heddle.controller.config.service import ServiceConfig
from heddle.controller.model.error import PrerequisiteError
from heddle.controller.pki.authority import crossed
from heddle.foundation.certificate import peer_in, serial_text
from heddle.foundation.channel import aio_channel_to
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.certificates import authority, files_of
from tests.support.controllers.tls_controller import BLUE, RED, config_of, served
from tests.unit.brain.driver import small_fabric

LIMIT_S = 20


@pytest.fixture
async def controller(tmp_path):
    async with served(tmp_path) as found:
        yield found


def operator(folder, name="ada", by=BLUE, **wanted):
    return files_of(by, Role.OPERATOR, name, folder / name, **wanted)


async def topology(stub):
    return await stub.GetTopology(pb.GetTopologyRequest(), timeout=LIMIT_S)


async def refused(stub):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await topology(stub)
    return error.value


async def test_a_holder_of_a_certificate_is_served(controller, tmp_path):
    assert (await topology(controller.stub(operator(tmp_path)))).switches


@pytest.mark.parametrize("age", [timedelta(0), timedelta(hours=25)], ids=["foreign", "expired"])
async def test_foreign_and_expired_certificates_are_refused_and_others_served(age, controller, tmp_path):
    by = BLUE if age else authority("blue")
    bad = controller.stub(operator(tmp_path, "eve", by=by, age=age, trusted=(BLUE, by)))
    error = await refused(bad)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert (await topology(controller.stub(operator(tmp_path)))).switches


async def test_plaintext_and_silent_connections_are_refused_and_logged_and_others_served(tmp_path, caplog, monkeypatch):
    for place in ("heddle.controller.api.server", "heddle.controller.api.connections"):
        monkeypatch.setattr(f"{place}.HANDSHAKE_MS", 500)
    monkeypatch.setattr("heddle.controller.api.connections.REPORT_S", 0.0)
    async with served(tmp_path) as controller:
        host, port = controller.address.split(":")
        silent, writer = await asyncio.open_connection(host, int(port))
        async with grpc.aio.insecure_channel(controller.address) as channel:
            assert (await refused(rpc.FabricServiceStub(channel))).code() is grpc.StatusCode.UNAVAILABLE
        assert (await topology(controller.stub(operator(tmp_path)))).switches
        async with asyncio.timeout(LIMIT_S):
            while await silent.read(4096):
                pass
            # The channel tries again by itself, so there are more than the two.
            while sum(map(int, re.findall(r"TLS connections without a call: (\d+) ", caplog.text))) < 2:
                await asyncio.sleep(0.05)
        writer.close()


async def test_another_fabric_is_refused_though_its_authority_is_trusted(tmp_path, caplog):
    async with served(tmp_path, trusted=(BLUE, RED)) as controller:
        error = await refused(controller.stub(operator(tmp_path, by=RED, trusted=(BLUE, RED))))
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "another fabric" in error.details()
        assert "spiffe://heddle/red/operator/ada is of another fabric" in caplog.text


async def test_a_client_refuses_a_server_of_another_authority(controller, tmp_path):
    wrong = operator(tmp_path, "bob", by=authority("blue"))
    assert (await refused(controller.stub(wrong))).code() is grpc.StatusCode.UNAVAILABLE


async def test_a_client_refuses_a_server_whose_certificate_is_no_server_s(tmp_path):
    """A stolen certificate of a switch has the right authority, and still cannot stand in for the controller."""
    stolen = Tls(files_of(BLUE, Role.SWITCH, "leaf1", tmp_path / "stolen"), pytest.fail)
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0, ssl=stolen.server_context())
    port = server.sockets[0].getsockname()[1]
    async with server, aio_channel_to(f"127.0.0.1:{port}", (), Tls(operator(tmp_path), pytest.fail)) as channel:
        error = await refused(rpc.FabricServiceStub(channel))
        assert "CERTIFICATE_VERIFY_FAILED" in error.details()


async def test_a_denied_certificate_loses_its_running_calls_and_gets_no_others(controller, tmp_path):
    bad, good = operator(tmp_path, "eve"), operator(tmp_path)
    stolen, fine = controller.stub(bad), controller.stub(good)
    watches = [iter_of(stub.WatchTopology(pb.GetTopologyRequest(), timeout=LIMIT_S)) for stub in (stolen, fine)]
    for watch in watches:
        await anext(watch)
    serial = peer_in(bad.certificate.read_bytes()).serial
    (tmp_path / "denied").write_text(f"{serial_text(serial)}\n")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await to_the_end(watches[0])
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "denied" in error.value.details()
    assert (await refused(stolen)).code() is grpc.StatusCode.UNAUTHENTICATED
    assert (await topology(fine)).switches


def iter_of(call):
    return call.__aiter__()


async def to_the_end(watch):
    async for _ in watch:
        pass


async def test_new_files_are_used_without_a_restart(controller, tmp_path):
    """The authority is replaced: who knows only the new one is served, who is of the old one is not."""
    before = controller.stub(operator(tmp_path))
    assert (await topology(before)).switches
    new = authority("blue")
    files_of(new, Role.CONTROLLER, "c1", tmp_path / "controller")
    assert (await topology(controller.stub(operator(tmp_path, "bob", by=new)))).switches
    assert (await topology(before)).switches, "a session outlives the files"
    late = controller.stub(operator(tmp_path, "late", trusted=(BLUE, new)))
    assert (await refused(late)).code() is grpc.StatusCode.UNAVAILABLE


async def test_a_certificate_of_the_next_authority_is_accepted_by_who_knows_only_the_old_one(controller, tmp_path):
    new = authority("blue")
    files = operator(tmp_path, "bob", by=new, trusted=(new, BLUE))
    cross = crossed(new, BLUE, now=datetime.now(UTC)).public_bytes(Encoding.PEM)
    stub = controller.stub(files)
    assert (await refused(stub)).code() is grpc.StatusCode.UNAVAILABLE
    files.certificate.write_bytes(files.certificate.read_bytes() + cross)
    assert (await topology(controller.stub(files))).switches


async def test_a_socket_file_needs_no_certificate(tmp_path):
    files = files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "controller")
    fabric, address = small_fabric(), f"unix:{tmp_path}/grpc"
    config = ServiceConfig(openflow="127.0.0.1:0", grpc=address, http="127.0.0.1:0", tls=config_of(files))
    application = Application(fabric, config, ThreadPlanner(fabric), ThreadCompiler(fabric))
    async with application.started(), grpc.aio.insecure_channel(address) as channel:
        assert (await topology(rpc.FabricServiceStub(channel))).switches


async def test_a_file_that_is_no_socket_is_not_replaced(tmp_path):
    path = tmp_path / "grpc"
    path.write_text("mine")
    fabric = small_fabric()
    config = ServiceConfig(openflow="127.0.0.1:0", grpc=f"unix:{path}", http="127.0.0.1:0")
    application = Application(fabric, config, ThreadPlanner(fabric), ThreadCompiler(fabric))
    with pytest.raises(PrerequisiteError, match="no socket"):
        async with application.started():
            pass
    assert path.read_text() == "mine"
