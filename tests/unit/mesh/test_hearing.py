"""What ports hear by pings: answered probes of both kinds, and what two NICs agree on; never of parallel cables."""

from heddle.controller.mesh.hearing import PingedPeers
from heddle.controller.model.cabling import Peer
from heddle.controller.model.srv6_pings import Finding, Pinged, Pings
from tests.property.controller.test_srv6_paths import srv6_fabric
from tests.property.controller.test_srv6_pings import THREE, TWO


def peer(port):
    return Peer(port.switch, port.number)


def test_an_answered_probe_of_a_leaf_s_cable_joins_its_ends_once():
    fabric = srv6_fabric(TWO)
    cable = fabric.up_choices["leaf1"][0]
    address = Pings(fabric, fabric.nics[0]).address(cable)
    peers = PingedPeers(fabric)
    assert peers.answered([(cable, address)]) == {cable.lower: peer(cable.upper), cable.upper: peer(cable.lower)}
    assert peers.answered([(cable, address)]) == {}
    assert peers.wrong == frozenset()


def test_above_the_leaf_both_kinds_of_probes_must_be_answered():
    fabric = srv6_fabric(THREE)
    hop = fabric.up_choices[fabric.nics[0].port.switch][0]
    cable = fabric.up_choices[hop.upper.switch][0]
    far, near = Pings(fabric, fabric.nics[0]).addresses_above(cable, hop)
    peers = PingedPeers(fabric)
    assert peers.answered([(cable, far), (cable, far)]) == {}
    assert peers.answered([(cable, near)]).keys() == {cable.lower, cable.upper}


def test_of_parallel_cables_nothing_is_heard():
    fabric = srv6_fabric(TWO | {"links_per_spine": 2})
    cable = fabric.up_choices["leaf1"][0]
    peers = PingedPeers(fabric)
    assert peers.answered([(cable, Pings(fabric, fabric.nics[0]).address(cable))]) == {}
    assert peers.located([Pinged((cable,), ())] * 2) == {}


def test_only_what_all_reports_agree_on_is_heard_and_former_peers_hear_nothing():
    fabric = srv6_fabric(TWO)
    one, other = fabric.up_choices["leaf1"][:2]
    peers = PingedPeers(fabric)
    sound = Pinged((one, other), ())
    peers.located([sound, sound])
    moved = Pinged((), (Finding(one, (other.upper,)), Finding(other, (one.upper,))))
    assert peers.located([sound, moved]) == {}
    assert peers.located([moved, Pinged((), (Finding(one, (other.upper,)), Finding(other)))]) == {
        one.lower: peer(other.upper), other.upper: peer(one.lower), one.upper: None, other.lower: None,
    }  # fmt: skip
    assert peers.wrong == {one, other}
    peers.located([sound, sound])
    assert peers.wrong == frozenset()
