"""The login in a browser, over TLS: nothing is shown without it, it lasts over views, and ends where it should."""

import asyncio
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from heddle.v1 import heddle_pb2 as pb
from tests.browser.test_views import AXE, SERIOUS
from tests.support.free_ports import free_ports
from tests.support.processes.browser import Browser, Page
from tests.unit.api.conftest import running
from tests.unit.dashboard.test_page_security import LOGIN, PASSWORD


def certificate(folder: Path) -> dict[str, str]:
    """Write a certificate for 127.0.0.1 and its key; return the keys of the configuration."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, SHA256())
    )
    (folder / "cert.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return {"certificate": str(folder / "cert.pem"), "key": str(folder / "key.pem")}


def log_in(page: Page, password: str) -> None:
    page.wait_for("document.querySelector('form.login') !== null")
    page.run("document.querySelectorAll('form.login input').forEach(field => field.value = '')")
    page.type("#user", "ann")
    page.type("#password", password)
    page.press("Enter")


async def test_a_login_over_tls_shows_the_page_lets_act_and_ends_by_its_button(browser: Browser, tmp_path):
    async with running(http_access={**LOGIN, **certificate(tmp_path)}) as controller:
        await controller.connect_all()
        await asyncio.to_thread(in_the_browser, browser, f"https://{controller.addresses['http']}")
        topology = await controller.fabric.GetTopology(pb.GetTopologyRequest())
        assert any(switch.id == "spine2" and switch.drained for switch in topology.switches)


def in_the_browser(browser: Browser, url: str) -> None:
    with browser.page() as page:
        page.trust_any_certificate()
        page.open(url + "/fabric?switch=spine2")
        page.wait_for("document.querySelector('form.login') !== null")
        page.run(AXE.read_text())
        assert page.run(SERIOUS) == []
        log_in(page, "wrong")
        page.wait_for_text("the user or the password is wrong", "[role=alert]")
        assert page.run("document.querySelector('.node')") is None
        log_in(page, PASSWORD)
        page.wait_for_text("Drain …")  # the address that was asked for
        assert page.run("document.cookie") == ""  # scripts cannot read the session
        assert page.run("isSecureContext") is True
        page.click("[data-action=drain]")
        page.wait_for("document.querySelector('#dialog .danger')?.disabled === false")
        page.click("#dialog .danger")
        page.wait_for_text("spine2: drained", "#dialog")
        page.press("Escape")
        page.wait_for("document.querySelector('.node.switch.drained') !== null")  # by the stream
        page.click("nav a[href='/timeline']")
        page.wait_for_text("requested over HTTP by ann (127.0.0.1)")
        with browser.page() as stranger:
            stranger.trust_any_certificate()
            stranger.open(url + "/jobs")
            stranger.wait_for("document.querySelector('form.login') !== null")
        page.click("[data-logout]")
        page.wait_for("document.querySelector('form.login') !== null")
        assert page.run("fetch('/api/state').then(reply => reply.status)") == 401
        unexpected = [error for error in page.errors if "status of 401" not in error and "status of 403" not in error]
        assert unexpected == []
        assert all(request.startswith((url, "data:", "about:")) for request in page.requests)


async def test_a_controller_that_starts_again_is_acted_on_and_asks_for_the_login_again(browser: Browser):
    with browser.page() as page:
        address = f"127.0.0.1:{free_ports(1)[0]}"  # no other program gets it between the two
        async with running(http=address) as first:
            await first.connect_all()
            await asyncio.to_thread(page.open, f"http://{address}/fabric?switch=spine2")
            await asyncio.to_thread(page.wait_for_text, "Drain …")
        await asyncio.to_thread(page.wait_for_text, "No connection to the controller since", "#banner")
        async with running(http=address) as second:
            await second.connect_all()
            await asyncio.to_thread(page.wait_for, "document.querySelector('#banner').innerText === ''")
            await asyncio.to_thread(page.click, "[data-action=drain]")
            await asyncio.to_thread(page.wait_for, "document.querySelector('#dialog .danger')?.disabled === false")
            await asyncio.to_thread(page.click, "#dialog .danger")
            await second.until(lambda topology: any(s.id == "spine2" and s.drained for s in topology.switches))
        await asyncio.to_thread(page.wait_for_text, "No connection to the controller since", "#banner")
        async with running(http=address, http_access=LOGIN):
            await asyncio.to_thread(page.wait_for, "document.querySelector('form.login') !== null")
