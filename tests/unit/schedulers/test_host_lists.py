"""Lists of hosts are compressed as Slurm compresses them, and read as it reads them."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from heddle.controller.schedulers.host_list import host_list, hosts_of
from tests.oracles.slurm_topology import expanded
from tests.support.examples import examples

NAMES = st.from_regex(r"[a-z][a-z.-]{0,2}[0-9]{0,9}(-[a-z]{1,2})?[0-9]{0,3}", fullmatch=True)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["h1"], "h1"),
        (["h2", "h1", "h3", "h7"], "h[1-3,7]"),
        (["h09", "h10", "h11"], "h09,h[10-11]"),
        (["h001", "h002", "h010"], "h[001-002,010]"),
        (["login", "h1", "h2"], "login,h[1-2]"),
        (["rack1-n1", "rack1-n2", "rack2-n1"], "rack1-n[1-2],rack2-n1"),
        (["n99999998", "n99999999"], "n99999998,n99999999"),
        (["h0", "h1", "h00"], "h[0-1],h00"),
        (["1", "2"], "1,2"),
        ([], ""),
    ],
)
def test_hosts_are_compressed_by_the_last_number_of_their_names(hosts, text):
    assert host_list(hosts) == text


@hypothesis_settings(max_examples=examples(80))
@given(st.lists(NAMES, min_size=1, max_size=30))
def test_a_compressed_list_has_the_same_hosts_each_once(hosts):
    text = host_list(hosts)
    assert sorted(expanded(text)) == sorted(set(hosts)) == sorted(hosts_of(text, "X"))
