"""Open vSwitch over TLS, with certificates of the fabric's authority (`ovs-vsctl set-ssl`, an `ssl:` controller)."""

import asyncio
import os
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio

from heddle.controller.model.rule import Change, ChangeOp, FlowRule, Match, Output, Step
from heddle.controller.southbound.server import OpenFlowServer
from heddle.foundation.certificate import serial_text
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls
from tests.contract.openflow_labs import SETTINGS
from tests.support.certificates import authority, files_of
from tests.support.fabrics.southbound_events import RecordedEvents

pytestmark = pytest.mark.e2e
RULE = FlowRule(table=0, priority=5, match=Match(in_port=1), actions=(Output(2),), cookie=6)
BRIDGE = f"tls{os.getpid()}"


class TlsLab:
    """A server with TLS, and a bridge whose daemon shows the certificate in `switch`."""

    def __init__(self, ovs, folder):
        self.ovs, self.by = ovs, authority()
        self.denied = folder / "denied"
        self.denied.touch()
        files = files_of(self.by, Role.CONTROLLER, "c1", folder / "controller", denied=self.denied)
        self.switch = files_of(self.by, Role.SWITCH, "leaf1", folder / "switch")
        self.events = RecordedEvents()
        self.server = OpenFlowServer(
            "127.0.0.1", 0, {1: "leaf1", 2: "leaf2"}.get, self.events, SETTINGS, tls=Tls(files, print)
        )

    async def start(self, datapath_id=1, scheme="ssl"):
        host, port = await self.server.start()
        await asyncio.to_thread(self.ovs.set_ssl, self.switch)
        await asyncio.to_thread(
            self.ovs.add_bridge, BRIDGE, datapath_id=datapath_id, ports=(f"1{BRIDGE}", f"2{BRIDGE}"),
            controller=f"{scheme}:{host}:{port}",
        )  # fmt: skip

    async def refused(self, reason, timeout_s=5):
        """Wait for a refusal for this reason; the switch came within a second."""
        async with asyncio.timeout(timeout_s):
            while not any(reason in line for line in self.server.refusals):
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def lab(ovs, tmp_path):
    made = TlsLab(ovs, tmp_path)
    yield made
    await asyncio.to_thread(ovs.vsctl, "--if-exists", "del-br", BRIDGE, "--", "del-ssl")
    await made.server.close()


async def test_a_denied_certificate_ends_the_session_and_a_new_one_opens_the_next(lab, tmp_path):
    await lab.start()
    await lab.events.wait_for("switch_up", "leaf1")
    await lab.server.install([Step({"leaf1": (Change(ChangeOp.RULE_ADD, RULE),)})])
    serial = lab.server.sessions()["leaf1"].holder.serial
    lab.denied.write_text(serial_text(serial))
    assert await lab.events.wait_for("switch_down", timeout_s=5) == (
        "switch_down", "leaf1", "its certificate is denied now",
    )  # fmt: skip
    await lab.refused("is denied")
    await asyncio.to_thread(lab.ovs.set_ssl, files_of(lab.by, Role.SWITCH, "leaf1", tmp_path / "next"))
    _, _, _, installed = await lab.events.wait_for("switch_up", "leaf1")
    assert installed.rules == (RULE,)
    assert lab.server.sessions()["leaf1"].holder.serial != serial


async def test_a_switch_with_anothers_datapath_id_is_refused(lab):
    await lab.start(datapath_id=2)
    await lab.refused("datapath id 0x2 is leaf2's; the certificate is of spiffe://heddle/blue/switch/leaf1")
    assert lab.events.all == []


async def test_a_plain_switch_at_the_tls_port_is_refused(lab):
    await lab.start(scheme="tcp")
    await lab.refused("no TLS: wrong version number")


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (lambda lab, at: files_of(authority(), Role.SWITCH, "leaf1", at), "its certificate is refused"),
        (lambda lab, at: files_of(lab.by, Role.SWITCH, "leaf1", at, age=timedelta(days=2)), "expired"),
        (lambda lab, at: files_of(lab.by, Role.TENANT, "leaf1", at), "must be switch"),
    ],
)
async def test_a_switch_with_a_wrong_certificate_is_refused(lab, tmp_path, who, reason):
    lab.switch = replace(who(lab, tmp_path / "wrong"), ca=lab.switch.ca)
    await lab.start()
    await lab.refused(reason)
    assert lab.events.all == []


async def test_a_switch_takes_no_controller_whose_certificate_is_a_switchs(lab, ovs, tmp_path):
    files = files_of(lab.by, Role.SWITCH, "leaf2", tmp_path / "impostor")
    lab.server = OpenFlowServer("127.0.0.1", 0, {1: "leaf1"}.get, lab.events, SETTINGS, tls=Tls(files, print))
    await lab.start()
    await lab.refused("unsupported certificate")
    assert lab.events.all == []
