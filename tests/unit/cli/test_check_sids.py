"""`heddle check sids`: what it says of files that it cannot use; pings themselves are tested in the lab."""

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.srv6_pings import Finding
from heddle.probing.self_ping import SelfPinger
from heddle.programs.console.sid_check import LeafCheck, _as_json, _lines

FABRIC = "version: 1\nsteering: srv6\n{}generate: {{kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1}}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (FABRIC.replace("srv6", "hash").format(""), "pings need `steering: srv6`"),
        (FABRIC.format(""), "no NIC of the fabric is on this machine"),
        ("version: 2\n", "version"),
    ],
    ids=["hash", "elsewhere", "malformed"],
)
def test_a_fabric_that_cannot_be_pinged_from_here_is_one_line(heddle, files, text, why):
    status, out, error = heddle("check", "sids", files("fabric.yaml", text))
    assert (status, out) == (2, "")
    assert why in error
    assert error.count("\n") == 1


def test_a_leaf_is_a_line_and_each_wrong_cable_another():
    fabric = parse_fabric(FABRIC.format(""), "f")
    first, second = fabric.up_choices["leaf1"]
    check = LeafCheck("leaf1", 2, 9, (Finding(first, (second.upper,)), Finding(second)), 0)
    assert _lines(check) == [
        "leaf1: 2 cables, 2 WRONG, 9 packets",
        "  leaf1:1: spine2:1 is at its far end, not spine1:1",
        "  leaf1:2: pings by spine2:1 do not return: "
        "the cable, or an entry of a switch on its way, is missing or wrong, or loses packets",
    ]
    assert _as_json(check)["findings"][0]["instead"] == ["spine2:1"]
    sound = check._replace(findings=(), sent=2, parallel=2)
    assert _lines(sound) == [
        "leaf1: 2 cables, all return, 2 packets; an exchange among 2 parallel cables is not distinguished"
    ]
    assert _lines(sound._replace(parallel=0, untested=4)) == [
        "leaf1: 2 cables, all return, 2 packets; 4 cables above are not tested"
    ]


def test_a_device_that_is_not_there_is_an_error():
    with pytest.raises(OSError, match=r"No such device|not permitted"):
        SelfPinger("nosuchdevice0", 1, bytes(6))
