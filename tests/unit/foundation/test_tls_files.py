"""TLS from files: who is admitted to a handshake, and what happens when the files change."""

import os
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from heddle.controller.pki.authority import crossed
from heddle.foundation.certificate import CertificateError, Peer, PeerRefusedError, serial_text
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls, TlsFiles
from tests.support.certificates import authority, files_of


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> tuple[ssl.SSLObject, ...]:
    """Return both ends of a TLS connection in memory; raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (server.wrap_bio(up, down, server_side=True), client.wrap_bio(down, up, server_hostname=host))
    todo = set(ends)
    for _ in range(10):
        for end in list(todo):
            try:
                end.do_handshake()
                todo.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not todo
    return ends


def no_problem(text: str) -> None:
    raise AssertionError(text)


def tls_of(files: TlsFiles) -> Tls:
    return Tls(files, no_problem)


BLUE, RED = authority("blue"), authority("red")


@pytest.fixture
def server(tmp_path: Path) -> Tls:
    denied = tmp_path / "denied"
    denied.write_text("# none\n")
    return tls_of(files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "server", denied=denied))


def accepted(server: Tls, files: TlsFiles) -> Peer:
    ours, _ = handshake(server.server_context(), tls_of(files).client_context())
    return server.peer(ours)


def test_both_ends_learn_the_identity_of_the_other(server: Tls, tmp_path: Path) -> None:
    client = tls_of(files_of(BLUE, Role.AGENT, "leaf1", tmp_path / "agent"))
    ours, theirs = handshake(server.server_context(), client.client_context())
    assert server.peer(ours).identity.uri == "spiffe://heddle/blue/agent/leaf1"
    assert client.peer(theirs, Role.CONTROLLER).identity.uri == "spiffe://heddle/blue/controller/c1"


def test_a_client_without_a_server_name_is_served_the_current_certificate(server: Tls, tmp_path: Path) -> None:
    listening = server.server_context()
    before = server.own().peer.serial
    files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "server")
    client = tls_of(files_of(BLUE, Role.SWITCH, "leaf1", tmp_path / "switch"))
    _, theirs = handshake(listening, client.client_context(), "127.0.0.1")  # an address is never sent as SNI
    assert client.peer(theirs).serial == server.own().peer.serial != before


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_after_the_authority_is_replaced_the_listener_trusts_only_the_new_one(version, server: Tls, tmp_path: Path):
    listening, new = server.server_context(), authority("blue")
    old_client = tls_of(files_of(BLUE, Role.SWITCH, "leaf1", tmp_path / "old", trusted=(BLUE, new)))
    new_client = tls_of(files_of(new, Role.SWITCH, "leaf1", tmp_path / "new"))
    files_of(new, Role.CONTROLLER, "c1", tmp_path / "server")
    contexts = [one.client_context() for one in (old_client, new_client)]
    for context in contexts:
        context.maximum_version = version
    with pytest.raises(ssl.SSLError):
        handshake(listening, contexts[0])
    ours, _ = handshake(listening, contexts[1])
    assert server.peer(ours).identity.name == "leaf1"


def test_another_authority_is_refused(server: Tls, tmp_path: Path) -> None:
    other = authority("blue")
    files = files_of(other, Role.SWITCH, "leaf1", tmp_path / "foreign", trusted=(BLUE, other))
    with pytest.raises(ssl.SSLError):
        accepted(server, files)


def test_an_expired_certificate_is_refused(server: Tls, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError):
        accepted(server, files_of(BLUE, Role.SWITCH, "leaf1", tmp_path / "x", age=timedelta(hours=25)))


def test_a_client_without_a_certificate_is_refused(server: Tls, tmp_path: Path) -> None:
    anonymous = ssl.create_default_context(cafile=str(tmp_path / "server" / "ca.pem"))
    with pytest.raises(ssl.SSLError):
        handshake(server.server_context(), anonymous)


def test_a_certificate_of_an_agent_cannot_serve(tmp_path: Path) -> None:
    agent = tls_of(files_of(BLUE, Role.AGENT, "leaf1", tmp_path / "agent"))
    client = agent.client_context()
    client.check_hostname = False
    with pytest.raises(ssl.SSLError, match="unsuitable certificate purpose"):
        handshake(agent.server_context(), client)


def test_a_denied_serial_is_refused_without_a_restart(server: Tls, tmp_path: Path) -> None:
    files = files_of(BLUE, Role.GATEWAY, "g1", tmp_path / "x")
    serial = accepted(server, files).serial
    (tmp_path / "denied").write_text(f"{serial_text(serial)}  # stolen\n")
    assert server.denied() == {serial}
    with pytest.raises(PeerRefusedError, match="denied"):
        accepted(server, files)
    (tmp_path / "denied").write_text("")
    assert accepted(server, files).serial == serial


def test_another_fabric_is_refused_though_its_authority_is_trusted(tmp_path: Path) -> None:
    server = tls_of(files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "server", trusted=(BLUE, RED)))
    with pytest.raises(PeerRefusedError, match="another fabric"):
        accepted(server, files_of(RED, Role.SWITCH, "leaf1", tmp_path / "x", trusted=(BLUE, RED)))


def test_another_role_than_the_expected_is_refused(server: Tls, tmp_path: Path) -> None:
    client = tls_of(files_of(BLUE, Role.SWITCH, "leaf1", tmp_path / "x"))
    ours, _ = handshake(server.server_context(), client.client_context())
    with pytest.raises(PeerRefusedError, match="must be agent or gateway"):
        server.peer(ours, Role.AGENT, Role.GATEWAY)


def test_files_that_do_not_fit_are_reported_once_and_the_former_stay_in_use(tmp_path: Path) -> None:
    files, lines = files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "server"), []
    server = Tls(files, lines.append)
    before = server.own()
    other = files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "other")
    os.replace(other.certificate, files.certificate)
    assert [server.own(), server.own()] == [before, before]
    assert len(lines) == 1
    assert "key: of another certificate; the former content stays in use" in lines[0]
    os.replace(other.key, files.key)
    assert server.own().peer.serial != before.peer.serial
    assert len(lines) == 1


def test_authorities_of_a_rotation_accept_each_other(tmp_path: Path) -> None:
    """A holder of the new authority, with the cross certificate, meets one that knows only the old authority."""
    new = authority("blue")
    cross = crossed(new, BLUE, now=datetime.now(UTC)).public_bytes(Encoding.PEM)
    late = tls_of(files_of(BLUE, Role.SWITCH, "leaf1", tmp_path / "late"))
    early = files_of(new, Role.CONTROLLER, "c1", tmp_path / "early", trusted=(new, BLUE))
    early.certificate.write_bytes(early.certificate.read_bytes() + cross)
    server = tls_of(early)
    ours, theirs = handshake(server.server_context(), late.client_context())
    assert server.peer(ours).identity.name == "leaf1"
    assert late.peer(theirs).identity.name == "c1"


def test_a_fifo_a_device_and_a_missing_file_are_refused_at_once(tmp_path: Path) -> None:
    files = files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "server")
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(CertificateError, match=str(path)):
            tls_of(replace(files, key=path))
        with pytest.raises(CertificateError, match=str(path)):
            tls_of(replace(files, denied=path))
