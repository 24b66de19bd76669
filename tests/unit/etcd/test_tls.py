"""Mutual TLS to a real etcd: who gets in, what a refusal says, and that new files need no restart."""

import asyncio
import shutil
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from heddle.controller.model.error import InputError
from heddle.controller.store.etcd.client import EtcdClient, EtcdTlsError
from heddle.controller.store.etcd.tls import EtcdTls
from heddle.foundation.certificate import CertificateError
from heddle.foundation.identity import Role
from heddle.programs.console.options.state import state
from tests.support.certificates import authority, files_of
from tests.support.clusters.cluster import ControllerCluster
from tests.support.clusters.etcd import PROGRAM, etcd

BLUE, RED, NEW = authority("blue"), authority("red"), authority("blue")
FABRIC = "generate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1, gbps: 100}\n"
REFUSED_S = 2.0
"""A call that is refused is tried again for so long; each try takes milliseconds."""


@pytest.fixture(scope="module")
def etcd_by_tls(tmp_path_factory):
    if shutil.which(PROGRAM) is None:
        pytest.skip("no etcd here: `scripts/setup all` installs it")
    folder = tmp_path_factory.mktemp("etcd-tls")
    with etcd(folder, tls=files_of(BLUE, Role.SERVICE, "etcd1", folder / "files")) as cluster:
        yield cluster


@pytest.fixture
def blue(tmp_path):
    return files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "blue")


@asynccontextmanager
async def client_of(endpoint, files=None):
    client = EtcdClient([endpoint], EtcdTls(files, pytest.fail) if files is not None else None)
    try:
        yield client
    finally:
        await client.close()


async def refusal(endpoint, files=None):
    async with client_of(endpoint, files) as client:
        with pytest.raises(EtcdTlsError) as why:
            await client.range(b"a", within_s=REFUSED_S)
        return str(why.value)


async def test_each_end_that_refuses_is_named_with_the_remedy(etcd_by_tls, one_etcd, blue, tmp_path):
    (by_tls,), (plain,) = etcd_by_tls.endpoints, one_etcd.endpoints
    foreign = files_of(RED, Role.CONTROLLER, "c1", tmp_path / "foreign")
    stranger = files_of(RED, Role.CONTROLLER, "c1", tmp_path / "stranger", trusted=(BLUE,))
    ended = timedelta(hours=2)
    expired = files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "expired", age=ended, lifetime=ended / 2)
    refusals = await asyncio.gather(
        refusal(by_tls, foreign), refusal(by_tls, stranger), refusal(by_tls, expired),
        refusal(etcd_by_tls.addresses[0]), refusal(f"https://{plain}", blue),
    )  # fmt: skip
    wanted = [
        f"its certificate is refused (unable to get local issuer certificate); {foreign.ca} has to be its authority's",
        f"it refuses the certificate {stranger.certificate}; its authority must be etcd's trusted-ca-file",
        f"it refuses the certificate {expired.certificate}; it ended 20",
        "it ends connections; if it speaks TLS, name it as https://…",
        "it speaks no TLS; name it as http://…",
    ]
    for text, expected in zip(refusals, wanted, strict=True):
        assert expected in text
        assert "\n" not in text


def test_a_certificate_of_etcd_that_has_ended_is_not_blamed_on_its_authority(blue):
    tls = EtcdTls(blue, pytest.fail)
    text = tls.cause("Handshake failed: OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired: OK")
    assert text == (
        "its certificate is refused (certificate has expired); issue another: etcd reads its files without a restart"
    )


async def test_connections_show_new_files_from_the_next_call_on_and_calls_that_run_go_on(etcd_by_tls, tmp_path):
    (endpoint,) = etcd_by_tls.endpoints
    files = files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "c1", age=timedelta(minutes=1))
    async with client_of(endpoint, files) as client:
        await client.range(b"a")
        before = client._members[0].channel
        await client.range(b"a")
        assert client._members[0].channel is before
        running = [asyncio.create_task(client.range(b"a")) for _ in range(20)]
        await asyncio.sleep(0)  # they are sent
        files_of(NEW, Role.CONTROLLER, "c1", tmp_path / "c1")  # of an authority that etcd does not trust
        with pytest.raises(EtcdTlsError, match="certificate is refused"):
            await client.range(b"a", within_s=REFUSED_S)
        files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "c1")
        await client.range(b"a")
        assert all(await asyncio.gather(*running))


def test_files_need_no_identity_of_a_fabric_but_a_key_that_fits(blue, tmp_path):
    other = files_of(RED, Role.CONTROLLER, "c1", tmp_path / "other")
    with pytest.raises(CertificateError, match="key: of another certificate"):
        EtcdTls(type(blue)(certificate=blue.certificate, key=other.key, ca=blue.ca), pytest.fail)
    EtcdTls(type(blue)(certificate=blue.certificate, key=blue.key, ca=other.ca), pytest.fail)
    with pytest.raises(ValueError, match="needs a certificate"):
        EtcdClient(["https://127.0.0.1:1"])


def test_the_command_shows_the_users_certificate_and_refuses_in_one_line(etcd_by_tls, blue, tmp_path, monkeypatch):
    monkeypatch.delenv("HEDDLE_TLS", raising=False)
    command = ["check", "--etcd", etcd_by_tls.endpoints[0], "--fabric", str(tmp_path)]
    assert "epoch" in CliRunner().invoke(state, [*command, "--tls", str(blue.ca.parent)]).output
    red = files_of(RED, Role.CONTROLLER, "c1", tmp_path / "red")
    for more, why in (
        ([], "--tls or HEDDLE_TLS names its directory"),
        (["--tls", str(tmp_path)], "cert.pem: No such file"),
        (["--tls", str(red.ca.parent)], "certificate is refused"),
    ):
        fault = CliRunner().invoke(state, [*command, *more]).exception
        assert isinstance(fault, InputError)
        assert fault.exit_status == 2
        assert why in str(fault)


def test_a_controller_shows_its_own_certificate_to_etcd_and_leads(etcd_by_tls, tmp_path):
    file = tmp_path / "fabric.yaml"
    file.write_text(f"version: 1\nname: blue\n{FABRIC}")
    files = files_of(BLUE, Role.CONTROLLER, "c1", tmp_path / "c1")
    with ControllerCluster(tmp_path, file, etcd_by_tls, count=1, etcd_files=files) as cluster:
        assert cluster.leader().end() == 0
        assert "Traceback" not in cluster.members[0].log.read_text()
