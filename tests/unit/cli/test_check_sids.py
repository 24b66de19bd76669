"""`heddle check sids`: what it says of files that it cannot use, and which NICs ping; pings are tested in the lab."""

from io import StringIO

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.srv6 import Sids
from heddle.controller.model.srv6_pings import Finding, Pings
from heddle.probing.self_ping import SelfPinger
from heddle.programs.console import sid_check
from heddle.programs.console.fabric_check.inputs import Source
from heddle.programs.console.sid_check import LeafCheck, _as_json, _lines, run_check_sids

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


def test_without_cap_net_raw_the_remedy_is_named(monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("socket.socket", refused)
    fabric = parse_fabric(FABRIC.format(""), "f")
    nic = fabric.nics[0]
    with pytest.raises(PrerequisiteError, match=r"raw sockets \(CAP_NET_RAW\): run this as root"):
        sid_check.check_leaf(Pings(fabric, nic), Sids(fabric), Source(nic, "eth0"), "02:00:00:00:00:01")


@pytest.fixture
def from_nics(monkeypatch, tmp_path):
    """Return a function that checks from this machine's NICs, two a leaf, of which some have no next hop."""
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC.format("").replace("hosts_per_leaf: 1", "hosts_per_leaf: 2"))

    def sources(fabric, wanted, nodes):
        return [Source(nic, f"of-{nic.id}") for nic in fabric.nics if not wanted or nic.id in wanted]

    def check(mute, nics=(), next_hop=None, as_json=False):
        def leaf(pings, sids, source, next_hop):
            if source.nic.id in mute:
                raise InputError(f"{source.nic.id} is mute")
            return LeafCheck(source.nic.port.switch, 2, 2, (), 0, nic=source.nic.id)

        monkeypatch.setattr(sid_check, "sources_of", sources)
        monkeypatch.setattr(sid_check, "check_leaf", leaf)
        out = StringIO()
        return run_check_sids(path, nics, next_hop, as_json, out), out.getvalue()

    return check


def test_each_leaf_is_checked_from_one_nic_and_each_nic_that_is_named_pings(from_nics):
    assert from_nics(()) == (0, "leaf1: 2 cables, all return, 2 packets\nleaf2: 2 cables, all return, 2 packets\n")
    both = [f"leaf1 from {nic}: 2 cables, all return, 2 packets\n" for nic in ("h1-n0", "h2-n0")]
    assert from_nics((), nics=("h1-n0", "h2-n0")) == (0, "".join(both))


def test_a_nic_without_a_next_hop_hides_no_other(from_nics, capsys):
    assert '"nic": "h2-n0"' in from_nics({"h1-n0"}, as_json=True)[1]
    assert from_nics({"h1-n0", "h2-n0"}) == (2, "leaf2: 2 cables, all return, 2 packets\n")
    assert capsys.readouterr().err == "heddle: h1-n0 is mute\nheddle: h2-n0 is mute\n"
    with pytest.raises(InputError, match="h4-n0 is mute"):
        from_nics({"h1-n0", "h2-n0", "h3-n0", "h4-n0"})


def test_the_next_hop_of_one_leaf_is_refused_for_several(from_nics):
    mac = "02:00:00:00:00:01"
    with pytest.raises(InputError, match="--next-hop: it is of one leaf, and 2 NICs would ping: name one by --nic"):
        from_nics((), next_hop=mac)
    assert from_nics((), nics=("h3-n0",), next_hop=mac)[0] == 0
