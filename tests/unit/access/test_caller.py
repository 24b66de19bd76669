import pytest

from heddle.controller.access.caller import Caller, UnknownCallerError, caller_of
from heddle.foundation.identity import Role

SSL = {"transport_security_type": [b"ssl"]}


def names(*uris):
    return {**SSL, "x509_subject_alternative_name": [uri.encode() for uri in uris]}


def test_a_caller_is_who_its_certificate_names():
    auth = names("spiffe://heddle/blue/tenant/red", "localhost")
    assert caller_of("ipv4:10.0.0.7:9", auth) == Caller(role=Role.TENANT, name="red", peer="ipv4:10.0.0.7:9")


def test_without_tls_a_caller_is_the_operator_of_this_machine():
    assert caller_of("unix:", {}).who == "operator:local"


@pytest.mark.parametrize(
    "uris",
    [
        (),
        ("localhost",),
        ("spiffe://heddle/blue/root/red",),
        ("spiffe://heddle/blue/operator/a", "spiffe://heddle/blue/tenant/b"),
    ],
)
def test_a_certificate_without_exactly_one_identity_names_no_one(uris):
    with pytest.raises(UnknownCallerError):
        caller_of("ipv4:10.0.0.7:9", names(*uris))
