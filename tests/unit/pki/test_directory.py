"""The directory of an authority: rotation, denial, and changes that were cut off."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from heddle.controller.model.error import InputError
from heddle.controller.pki import directory as store
from heddle.controller.pki.files import write
from heddle.foundation.certificate import own_certificate
from heddle.foundation.identity import Identity, Role

NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)
DAY = timedelta(hours=24)
ADA, LEAF = Identity("blue", Role.OPERATOR, "ada"), Identity("blue", Role.SWITCH, "leaf1")


@pytest.fixture
def directory(tmp_path):
    return store.init(tmp_path / "ca", "blue", NOW)


def issue(directory, identity, out, now=NOW, **wanted):
    return directory.issue(identity, out, now, DAY, **{"replace": False, **wanted})


def trusted(out: Path):
    """Check the files of a holder as a process does that starts with them."""
    return own_certificate(*((out / name).read_bytes() for name in ("cert.pem", "key.pem", "ca.pem")))


def test_keys_are_no_one_else_s(directory, tmp_path):
    issue(directory, ADA, tmp_path / "ada")
    for secret in (directory.path / "authority.pem", directory.path / "issued", tmp_path / "ada" / "key.pem"):
        assert secret.stat().st_mode & 0o777 == 0o600
    assert directory.path.stat().st_mode & 0o777 == 0o700


def test_holders_of_both_authorities_accept_each_other_within_a_rotation(directory, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    issue(directory, LEAF, old)
    directory.rotate(NOW)
    issue(directory, ADA, new)
    for holder, other in ((old, new), (new, old), (old, old), (new, new)):
        chain, key = ((holder / name).read_bytes() for name in ("cert.pem", "key.pem"))
        own_certificate(chain, key, (other / "ca.pem").read_bytes())


def test_a_rotation_ends_when_the_last_holder_has_a_new_certificate(directory, tmp_path):
    issue(directory, LEAF, tmp_path / "leaf1")
    issue(directory, ADA, tmp_path / "ada")
    directory.rotate(NOW)
    issue(directory, LEAF, tmp_path / "leaf1", replace=True)
    with pytest.raises(InputError, match=r"1 valid certificates.*operator/ada"):
        directory.end_rotation(NOW, force=False)
    directory.end_rotation(NOW + DAY, force=False)
    assert len(x509.load_pem_x509_certificates((directory.path / "ca.pem").read_bytes())) == 1
    trusted(tmp_path / "leaf1")
    issue(directory, ADA, tmp_path / "ada", replace=True)
    assert len(x509.load_pem_x509_certificates((tmp_path / "ada" / "cert.pem").read_bytes())) == 1
    directory.rotate(NOW + DAY)


def test_a_second_rotation_within_the_first_is_refused(directory):
    directory.rotate(NOW)
    with pytest.raises(InputError, match="--end"):
        directory.rotate(NOW)


@pytest.mark.parametrize("written", range(4))
def test_a_rotation_that_was_cut_off_can_be_begun_again(written, directory, tmp_path, monkeypatch):
    """After any number of written files the directory is that of before or after, and works."""
    left = iter([True] * written)

    def cut(*arguments):
        if not next(left, False):
            raise KeyboardInterrupt
        write(*arguments)

    with monkeypatch.context() as within:
        within.setattr("heddle.controller.pki.directory.write", cut)
        with pytest.raises(KeyboardInterrupt):
            directory.rotate(NOW)
    again = store.AuthorityDirectory(directory.path)
    if again.previous is None:
        again.rotate(NOW)
    issue(again, ADA, tmp_path / "ada")
    trusted(tmp_path / "ada")
    again.end_rotation(NOW, force=True)


def test_the_files_of_another_holder_are_never_replaced(directory, tmp_path):
    issue(directory, ADA, tmp_path / "out")
    with pytest.raises(InputError, match="--replace"):
        issue(directory, ADA, tmp_path / "out")
    with pytest.raises(InputError, match=r"operator/ada.*--out"):
        issue(directory, LEAF, tmp_path / "out", replace=True)
    (tmp_path / "out" / "cert.pem").write_text("a letter")
    with pytest.raises(InputError, match="no holder of ours"):
        issue(directory, ADA, tmp_path / "out", replace=True)


def test_a_denied_serial_is_in_the_list_and_in_the_revocations_of_both_authorities(directory, tmp_path):
    serial = issue(directory, ADA, tmp_path / "ada").serial
    directory.rotate(NOW)
    for _ in range(2):  # again changes nothing
        directory.deny([(serial, "stolen")], NOW)
    assert (directory.path / "denied").read_text().count("stolen") == 1
    assert store.denied_in(directory.path / "denied") == {serial}
    blocks = (directory.path / "crl.pem").read_bytes().split(b"-----END X509 CRL-----\n")[:-1]
    lists = [x509.load_pem_x509_crl(block + b"-----END X509 CRL-----\n") for block in blocks]
    assert [{one.serial_number for one in found} for found in lists] == [{serial}, {serial}]
    assert lists[0].is_signature_valid(directory.current.key.public_key())


def test_ended_certificates_leave_the_list_of_issued_ones(directory, tmp_path):
    issue(directory, ADA, tmp_path / "ada")
    issue(directory, LEAF, tmp_path / "leaf1", NOW + 2 * DAY)
    assert (directory.path / "issued").read_text().count("\n") == 1
    assert [one.identity for one in directory.valid(NOW + 2 * DAY)] == [LEAF]


def test_a_damaged_authority_is_refused(directory):
    (directory.path / "authority.pem").write_bytes(b"x")
    with pytest.raises(InputError, match="restore it"):
        store.AuthorityDirectory(directory.path)
