"""`steering: srv6` and the key `srv6`: read, written again, and refused with a line that names the remedy."""

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.config.write import fabric_document, fabric_text
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.fabric_change import changes_between
from heddle.controller.model.srv6 import Sids
from heddle.controller.model.srv6_settings import DEFAULT_SRV6, LastHop, Srv6, Style

GENERATED = "generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, links_per_spine: 2}\n"
PLANES = "generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, planes: 2}\n"
DRAWN = (
    "switches: [{{id: leaf1, role: leaf, datapath_id: {}}}, {{id: leaf2, role: leaf, datapath_id: 2}},"
    " {{id: spine1, role: spine, datapath_id: 3}}]\n"
    "links: [{{a: 'leaf1:1', b: 'spine1:1', gbps: 1}}, {{a: 'leaf2:1', b: 'spine1:2', gbps: 1}}]\n"
)


def fabric(keys: str, parts: str = GENERATED):
    return parse_fabric(f"version: 1\nsteering: srv6\n{keys}{parts}", "f")


def test_a_file_without_the_key_has_the_defaults():
    found = fabric("")
    assert (found.steered_by, found.srv6) == (SteeredBy.SRV6, DEFAULT_SRV6)


def test_a_written_fabric_keeps_its_addressing():
    found = fabric('srv6: {block: "fcbb:3::/32", style: cable, last_hop: ua}\n')
    assert found.srv6 == Srv6(0xFCBB0003, Style.CABLE, LastHop.UA)
    assert parse_fabric("\n".join(fabric_text(found)), "again") == found
    assert fabric_document(found)["srv6"] == {"block": "fcbb:3::/32", "style": "cable", "last_hop": "ua"}


def test_each_plane_has_a_block_of_its_own():
    found = fabric("", PLANES)
    sids = Sids(found)
    assert [ipv6_text(sids.source(nic)) for nic in found.ports_of["h1-n0"]] == ["fcbb:0:3:e003::", "fcbb:1:7:e003::"]
    cables = (found.up_choices["p1-leaf1"][0], found.up_choices["p1-leaf2"][0])
    links = (cables[0].up_link, cables[1].down_link)
    assert ipv6_text(sids.destination(links, "h2-n0/p1")) == "fcbb:1:e001:e002:e003::"
    usid = sids.of_port(links[0])
    assert ipv6_text(sids.prefix(usid, "p1-leaf1")) == "fcbb:1:e001::"


@pytest.mark.parametrize(
    ("keys", "parts", "why"),
    [
        (
            'srv6: {block: "fe7f:ffff::/32"}\n',
            PLANES,
            "f: srv6.block: fe80::/32, of plane 1, overlaps fe80::/10, link-local addresses: use another, such as",
        ),
        ('srv6: {block: "fcbb::/48"}\n', GENERATED, "f: srv6.block: it is a /48: uSIDs need a /32"),
        ('srv6: {block: "fcbb::1/32"}\n', GENERATED, "f: srv6.block: fcbb::1/32 has host bits set; write an IPv6"),
        ('srv6: {block: "10.0.0.0/8"}\n', GENERATED, "write an IPv6 network such as fcbb::/32"),
        (
            'srv6: {block: "fe80:1::/32"}\n',
            GENERATED,
            "fe80:1::/32 overlaps fe80::/10, link-local addresses: use another",
        ),
        ('srv6: {block: "::/32"}\n', GENERATED, "::/32 overlaps ::/16"),
        ("srv6: {style: rsvp}\n", GENERATED, "f: srv6.style"),
        (
            "srv6: {style: un}\n",
            GENERATED,
            "f: srv6.style: style un cannot distinguish leaf1:1>spine1:1 and leaf1:2>spine1:2",
        ),
        ("", DRAWN.format(57344), "leaf1 has datapath_id 57344, uSIDs name switches 1 to 57343: give it a lower one"),
        (
            "srv6: {style: cable}\n",
            DRAWN.format(15000),
            "leaf1 has datapath_id 15000, uSIDs name switches 1 to 14335, as each switch takes 4 uSIDs in style cable",
        ),
        (
            "",
            DRAWN.format(1).replace("leaf1:1", "leaf1:8191"),
            "port leaf1:8191 has no uSID: those are for port numbers",
        ),
    ],
)
def test_what_usids_cannot_name_is_refused_in_one_line(keys, parts, why):
    with pytest.raises(InputError) as refused:
        fabric(keys, parts)
    assert why in str(refused.value)
    assert len(refused.value.problems) == 1


def test_the_highest_numbers_are_taken():
    found = fabric("", DRAWN.format(57343).replace("leaf1:1", "leaf1:8190"))
    assert found.switch_by_id["leaf1"].datapath_id == 57343


def test_the_key_needs_the_steering():
    with pytest.raises(InputError, match="f: srv6: it needs `steering: srv6`"):
        parse_fabric(f"version: 1\nsteering: hash\nsrv6: {{style: ua}}\n{GENERATED}", "f")


def test_another_block_or_datapath_id_is_a_change_that_flows_notice():
    change = changes_between(fabric("", DRAWN.format(1)), fabric('srv6: {block: "fcbb:1::/32"}\n', DRAWN.format(7)))
    assert change.harms == (
        "srv6 is block fcbb:1::/32, style ua, last hop route, was block fcbb::/32, style ua, last hop route",
        "the datapath id of leaf1 is 7, was 1",
    )
