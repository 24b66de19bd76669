"""Switches over TLS: whose certificates open a session, and which end one."""

import asyncio
import contextlib
import dataclasses
import logging
import shutil
import ssl
from datetime import timedelta

import pytest
import pytest_asyncio

from heddle.controller.model.rule import Step
from heddle.controller.runtime import tls_front
from heddle.foundation.certificate import serial_text
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls
from heddle.testing.switches.openflow_switch import FakeSwitch
from tests.support.certificates import authority, files_of
from tests.unit.southbound.conftest import NAMES, QUICK, Southbound

HOURS = timedelta(hours=1)
BLUE, OTHERS = authority("blue"), authority("blue")


@pytest.fixture
def settings():
    return QUICK


class Secured(Southbound):
    """A southbound with TLS, whose files are in `folder`."""

    def __init__(self, settings, tls, folder):
        super().__init__(settings, tls)
        self.folder = folder


@pytest_asyncio.fixture
async def secured(settings, tmp_path):
    (tmp_path / "denied").touch()
    files = files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "controller", denied=tmp_path / "denied")
    running = Secured(settings, Tls(files, logging.getLogger("test").warning), tmp_path)
    await running.start()
    yield running
    await running.close()


def context_of(secured, name, role=Role.SWITCH, by=BLUE, **more):
    """Return the TLS of a client that holds a certificate for `name`."""
    files = files_of(by, role, name, secured.folder / f"{role}-{name}-{id(by)}", trusted=(BLUE,), **more)
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.certificate, files.key)
    return context


def switch(secured, datapath_id, context=None):
    made = FakeSwitch(datapath_id)
    made.tls = context or context_of(secured, NAMES[datapath_id])
    return made


async def up(secured, datapath_id):
    made = await secured.connected(switch(secured, datapath_id))
    await secured.events.wait_for("switch_up", NAMES[datapath_id])
    return made


async def test_a_switch_that_shows_its_own_certificate_is_up_and_takes_rules(secured):
    await up(secured, 1)
    await secured.server.install([Step({"leaf1": ()})])
    assert secured.server.sessions()["leaf1"].holder.identity.name == "leaf1"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda s: context_of(s, "leaf2", by=OTHERS), "its certificate is refused: "),
        (lambda s: context_of(s, "leaf2", age=3 * HOURS, lifetime=HOURS), "certificate has expired"),
        (lambda s: context_of(s, "leaf2", age=-3 * HOURS), "certificate is not yet valid"),
        (lambda s: ssl.create_default_context(cafile=s.folder / "controller" / "ca.pem"), "peer did not return a cert"),
        (lambda s: context_of(s, "leaf2", Role.AGENT), "must be switch"),
        (lambda s: context_of(s, "leaf1"), "0x2 is leaf2's; the certificate is of spiffe://heddle/blue/switch/leaf1"),
        (lambda s: None, "wrong version number"),
    ],
)
async def test_a_switch_with_a_wrong_certificate_is_refused_once_and_no_other_is(secured, caplog, make, reason):
    await up(secured, 1)
    made = FakeSwitch(2)
    made.tls = make(secured)
    with caplog.at_level(logging.WARNING):
        try:
            await secured.connected(made)
            await made.closed(timeout_s=5)
        except (ssl.SSLError, ConnectionError):
            pass  # the client saw the refusal during its part of the handshake
        async with asyncio.timeout(5):
            while not secured.server.refusals:
                await asyncio.sleep(0.01)
    await secured.server.install([Step({"leaf1": ()})])
    assert [reason in line for line in secured.server.refusals] == [True]
    assert [reason in record.getMessage() for record in caplog.records] == [True]
    assert secured.events.all == []


async def test_a_certificate_that_is_denied_ends_its_session_and_opens_no_other(secured):
    await up(secured, 1)
    denied = await up(secured, 2)
    serial = secured.server.sessions()["leaf2"].holder.serial
    (secured.folder / "denied").write_text(f"{serial_text(serial)}  # leaf2 was stolen\n")
    assert await secured.events.wait_for("switch_down", timeout_s=5) == (
        "switch_down", "leaf2", "its certificate is denied now",
    )  # fmt: skip
    await denied.closed(timeout_s=5)
    with contextlib.suppress(OSError):
        await secured.connected(denied)
        await denied.closed(timeout_s=5)
    async with asyncio.timeout(5):
        while not secured.server.refusals:
            await asyncio.sleep(0.01)
    assert f"its certificate {serial_text(serial)} is denied" in secured.server.refusals[-1]
    await secured.server.install([Step({"leaf1": ()})])


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, handshake_timeout_s=0.3)])
async def test_a_client_that_never_finishes_the_handshake_is_closed_by_its_timer(secured):
    await up(secured, 1)
    reader, writer = await asyncio.open_connection(*secured.address)
    writer.write(b"\x16\x03\x01\x02\x00\x01")  # the start of a ClientHello
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await secured.server.install([Step({"leaf1": ()})])
    assert "handshake" in secured.server.refusals[-1]


async def test_clients_that_never_finish_the_handshake_leave_room_for_a_switch(secured, monkeypatch):
    monkeypatch.setattr(tls_front, "MAX_HANDSHAKES", 8)
    idle = [await asyncio.open_connection(*secured.address) for _ in range(20)]
    await up(secured, 1)
    assert "too many handshakes" in secured.server.refusals[0]
    for _, writer in idle:
        writer.close()


async def test_a_new_certificate_of_the_controller_is_shown_to_the_next_switch(secured):
    await up(secured, 1)
    new = files_of(BLUE, Role.CONTROLLER, "c1", secured.folder / "new")
    for path in (new.key, new.certificate):
        shutil.copy(path, secured.folder / "controller" / path.name)
    made = await up(secured, 2)
    shown = made._writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert ssl.PEM_cert_to_DER_cert(new.certificate.read_text()) == shown
    assert "leaf1" in secured.server.sessions()


async def test_a_server_closes_while_clients_shake_hands(secured):
    reader, writer = await asyncio.open_connection(*secured.address)
    await asyncio.sleep(0)
    await secured.close()
    with pytest.raises(OSError):
        await asyncio.open_connection(*secured.address)
    writer.close()
    assert await asyncio.wait_for(reader.read(), 5) == b""
