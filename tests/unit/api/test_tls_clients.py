"""Clients of a controller with mutual TLS: the command line, gateways, and the agent that reports queue pairs."""

import asyncio
import os

import pytest

from heddle.controller.model.error import InputError, UnavailableError
from heddle.dataplane.control.session.attachment import Attachment
from heddle.foundation.certificate import serial_text
from heddle.foundation.identity import TLS_VARIABLE, Role
from heddle.foundation.tls_files import Tls
from heddle.programs.console import client
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.certificates import authority, files_of
from tests.support.controllers.tls_controller import BLUE, served
from tests.unit.api.conftest import running
from tests.unit.api.test_vpc_service import blue

LIMIT_S = 20


@pytest.fixture
async def controller(tmp_path):
    async with served(tmp_path) as found:
        yield found


def topology(address):
    with client.connected(address) as connected:
        return connected.fabric.GetTopology(pb.GetTopologyRequest(), timeout=LIMIT_S)


def certified(monkeypatch, folder, by=BLUE, **wanted):
    files_of(by, Role.OPERATOR, "ada", folder, **wanted)
    monkeypatch.setenv(TLS_VARIABLE, str(folder))


async def test_a_command_shows_the_certificate_that_the_environment_names(controller, tmp_path, monkeypatch):
    certified(monkeypatch, tmp_path / "ada")
    assert (await asyncio.to_thread(topology, controller.address)).switches


@pytest.mark.parametrize("case", ["no certificate", "foreign", "of another server", "plaintext"])
async def test_a_command_that_cannot_connect_names_the_cause(case, controller, tmp_path, monkeypatch):
    monkeypatch.setattr("heddle.client.connection.CONNECT_TIMEOUT_S", 0.3)
    other, text, address = authority("blue"), "", controller.address
    monkeypatch.delenv(TLS_VARIABLE, raising=False)
    if case == "no certificate":
        text = "HEDDLE_TLS names your certificate's directory"
    elif case == "foreign":
        certified(monkeypatch, tmp_path / "ada", by=other, trusted=(other, BLUE))
        text = "refuses the certificate in"
    elif case == "of another server":
        certified(monkeypatch, tmp_path / "ada", by=other)
        text = "its certificate is refused"
    else:
        certified(monkeypatch, tmp_path / "ada")
        text = "it speaks no TLS; unset HEDDLE_TLS"
    async with running() as plain:
        address = plain.addresses["grpc"] if case == "plaintext" else address
        with pytest.raises(UnavailableError, match=text):
            await asyncio.to_thread(topology, address)


def test_a_directory_without_a_certificate_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(TLS_VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=r"HEDDLE_TLS: .*cert.pem: No such file"):
        topology("127.0.0.1:1")


async def test_a_gateway_attaches_with_its_renewed_certificate_after_the_old_one_is_denied(controller, tmp_path):
    ada = files_of(BLUE, Role.OPERATOR, "ada", tmp_path / "ada")
    await rpc.VpcServiceStub(controller.channel(ada)).ApplyVpc(blue())
    files = files_of(BLUE, Role.GATEWAY, "g1", tmp_path / "g1")
    tls = Tls(files, pytest.fail)
    session = Attachment(
        controller.address, pb.GatewayHello(gateway_id="g1", kind="gateway", vtep_ip="192.0.2.1"), _accept, tls=tls
    )
    running_session = asyncio.create_task(session.run())
    try:
        await until(lambda: session.attached)
        denied = tls.own().peer.serial
        (tmp_path / "denied").write_text(serial_text(denied))
        await until(lambda: not session.attached)
        renewed = files_of(BLUE, Role.GATEWAY, "g1", tmp_path / "renewed")
        for name in ("key", "certificate"):
            os.replace(getattr(renewed, name), getattr(files, name))
        await until(lambda: session.attached)
        assert tls.own().peer.serial != denied
    finally:
        running_session.cancel()
        await asyncio.gather(running_session, return_exceptions=True)


async def _accept(desired):
    pass


async def until(holds):
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.02)
