"""Identities and the URIs that name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.foundation.identity import Identity, Role, identity_in

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}", fullmatch=True)


@given(NAMES, st.sampled_from(Role), NAMES)
def test_a_uri_names_the_identity_it_was_made_from(fabric, role, name):
    identity = Identity(fabric, role, name)
    assert identity_in(identity.uri) == identity
    assert len(identity.common_name) <= 64


def test_the_uri_and_the_common_name_are_those_of_the_contract():
    identity = Identity("lab", Role.AGENT, "leaf1")
    assert (identity.uri, identity.common_name) == ("spiffe://heddle/lab/agent/leaf1", "agent:leaf1")


@pytest.mark.parametrize(
    "uri",
    [
        "", "spiffe://heddle/lab/agent", "spiffe://heddle/lab/agent/leaf1/x", "spiffe://heddle/lab/root/leaf1",
        "spiffe://other/lab/agent/leaf1", "spiffe://heddle//agent/leaf1", "spiffe://heddle/lab/agent/a b",
        "spiffe://heddle/lab/agent/", "spiffe://heddle/lab/agent/" + 49 * "a", "spiffe://heddle/lab/agent/-a",
    ],
)  # fmt: skip
def test_other_uris_name_no_identity(uri):
    with pytest.raises(ValueError, match=r"names no identity|must be 1 to 48"):
        identity_in(uri)
