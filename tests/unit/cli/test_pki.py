"""`heddle pki`: what it prints, and what it refuses."""

import json

import pytest

from heddle.foundation.tls_files import Tls, files_in


@pytest.fixture
def authority(heddle, tmp_path):
    assert heddle("pki", "init", tmp_path / "ca", "--fabric", "blue")[0] == 0
    return tmp_path / "ca"


def test_a_certificate_is_issued_and_denied(heddle, authority, tmp_path):
    out = tmp_path / "ada"
    status, text, _ = heddle("pki", "issue", authority, "operator", "ada", "--out", out, "--json")
    assert status == 0
    document = json.loads(text)
    assert document["uri"] == Tls(files_in(out), pytest.fail).identity.uri == "spiffe://heddle/blue/operator/ada"
    status, text, _ = heddle("pki", "deny", authority, "operator", "ada", "--json")
    assert (status, json.loads(text)) == (0, {"denied": [document["serial"]]})
    assert document["serial"] in (authority / "denied").read_text()


def test_a_controller_gets_a_deny_list_and_revocations_too(heddle, authority, tmp_path):
    status, *_ = heddle("pki", "issue", authority, "controller", "c1", "--ip", "127.0.0.1", "--out", tmp_path / "c1")
    assert status == 0
    assert {path.name for path in (tmp_path / "c1").iterdir()} == {"cert.pem", "key.pem", "ca.pem", "denied", "crl.pem"}


def test_an_authority_is_rotated(heddle, authority):
    assert json.loads(heddle("pki", "rotate", authority, "--json")[1])["rotating"] is True
    assert heddle("pki", "rotate", authority, "--end")[0] == 0
    assert heddle("pki", "rotate", authority, "--end")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["init", "{ca}", "--fabric", "blue"], "nothing was changed"),
        (["init", "{ca}x", "--fabric", "a b"], "fabric 'a b'"),
        (["issue", "{ca}x", "agent", "a", "--out", "{out}"], "heddle pki init"),
        (["issue", "{ca}", "agnt", "a", "--out", "{out}"], "the roles are operator"),
        (["issue", "{ca}", "agent", "a/b", "--out", "{out}"], "name 'a/b'"),
        (["issue", "{ca}", "controller", "c", "--out", "{out}"], "--dns, --ip"),
        (["issue", "{ca}", "controller", "c", "--dns", "a b", "--out", "{out}"], "no DNS name"),
        (["issue", "{ca}", "controller", "c", "--ip", "c1", "--out", "{out}"], "belongs to --dns"),
        (["deny", "{ca}"], "ROLE and NAME"),
        (["deny", "{ca}", "operator", "zoe"], "no valid certificate"),
        (["deny", "{ca}", "--serial", "xyz"], "hexadecimal"),
        (["rotate", "{ca}", "--force"], "--end"),
        (["pair-key", "{ca}/denied"], "nothing was changed"),
    ],
)
def test_a_refusal_is_one_line_with_the_remedy(arguments, text, heddle, authority, tmp_path):
    status, out, error = heddle("pki", *(word.format(ca=authority, out=tmp_path / "out") for word in arguments))
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert text in error
    assert not (tmp_path / "out").exists()


def test_a_pair_key_is_a_secret_of_its_own(heddle, tmp_path):
    secrets = set()
    for name in ("a", "b"):
        assert heddle("pki", "pair-key", tmp_path / name)[0] == 0
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        secrets.add((tmp_path / name).read_text())
    assert len(secrets) == 2
    assert all(len(bytes.fromhex(secret)) == 32 for secret in secrets)
