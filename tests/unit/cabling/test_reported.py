"""What agents report becomes what switch ports hear; hosts are heard too, and accuse no cable between switches."""

import pytest

from heddle.controller.cabling.diagnosis import diagnose
from heddle.controller.cabling.heard import Neighbour
from heddle.controller.cabling.sources.reported import peers
from heddle.controller.model.fabric import PortRef
from heddle.foundation.address import mac_text
from heddle.telemetry.neighbours.heard import Heard, Sender
from tests.support.fabrics.small_fabrics import spine_leaf

FABRIC = spine_leaf(3, 3, 6)
CABLES, NICS = FABRIC.cables, FABRIC.nics
SONIC = "Ethernet{}".format


def name_of(port):
    """Return SONiC's name of a port whose names do not follow the usual four lanes."""
    return SONIC(8 * (port.number - 1))


def of_port(port):
    return Sender(system=port.switch, chassis="", ports=(name_of(port),))


def of_nic(nic):
    return Sender(system=nic.host, chassis="", ports=(mac_text(nic.mac),))


def as_built():
    """Return what all agents of a sound fabric report."""
    found = {}
    for cable in CABLES:
        for one, far in ((cable.lower, cable.upper), (cable.upper, cable.lower)):
            found[str(one)] = Heard(name_of(one), (of_port(far),))
    for nic in NICS:
        found[str(nic.port)] = Heard(name_of(nic.port), (of_nic(nic),))
        found[nic.id] = Heard("eth2", (of_port(nic.port),))
    return found


def exchanged(reports, *pairs):
    """Return reports in which what some ports and NICs hear is exchanged, two by two."""
    found = dict(reports)
    for one, other in pairs:
        senders = found[str(one)].senders, found[str(other)].senders
        for place, heard in zip((one, other), reversed(senders), strict=True):
            found[str(place)] = found[str(place)]._replace(senders=heard)
    return found


def heard(reports):
    return peers(FABRIC, reports)


def of_hosts(reports):
    """Return reports in which hosts hear, and switches only name their ports."""
    return {place: each if place in FABRIC.nic_by_id else each._replace(senders=()) for place, each in reports.items()}


def causes(reports):
    return [cause.text for cause in diagnose(FABRIC, heard(reports)).causes]


def test_a_sound_fabric_is_heard_whole_by_the_names_that_its_switches_give_their_ports():
    found = heard(as_built())
    assert len(found) == 2 * len(CABLES) + len(NICS)
    assert found[CABLES[0].lower] == Neighbour(switch=CABLES[0].upper.switch, port=CABLES[0].upper.number)
    assert found[NICS[0].port] == Neighbour(switch="", port=None, nic=NICS[0].id)
    assert diagnose(FABRIC, found).causes == ()


def test_exchanged_plugs_are_named_from_the_switches_alone_or_one_end_alone():
    one, other = CABLES[0], CABLES[4]
    wrong = exchanged(as_built(), (one.lower, other.lower), (one.upper, other.upper))
    assert f"{one.lower} and {other.lower} are exchanged" in causes(wrong)[0]
    for silent in ((one.lower, other.lower), (one.upper, other.upper)):
        half = wrong | {str(port): wrong[str(port)]._replace(senders=()) for port in silent}
        assert len(causes(half)) == 1


def test_what_only_hosts_hear_names_exchanged_nics():
    first, second = NICS[0], NICS[3]
    wrong = of_hosts(exchanged(as_built(), (first.id, second.id)))
    assert len(causes(wrong)) == 1
    assert f"{first.id}" in causes(wrong)[0]
    assert heard(wrong)[second.port] == Neighbour(switch="", port=None, nic=first.id)


def test_two_nics_that_claim_one_port_leave_it_to_the_one_that_belongs_there():
    names = {place: each for place, each in of_hosts(as_built()).items() if place not in FABRIC.nic_by_id}
    claim = Heard("eth2", (of_port(NICS[0].port),))
    believed = heard(names | dict.fromkeys((NICS[0].id, NICS[1].id), claim))
    assert believed == {NICS[0].port: Neighbour(switch="", port=None, nic=NICS[0].id)}
    assert heard(names | dict.fromkeys((NICS[2].id, NICS[3].id), claim)) == {}


def test_of_a_switch_without_an_agent_no_port_is_guessed():
    """Ethernet8 is the second port here, and would be the third by four lanes a port."""
    silent = {place: each for place, each in as_built().items() if not place.startswith("spine1:")}
    assert causes(silent) == []
    far = {heard(silent)[cable.lower] for cable in CABLES if cable.upper.switch == "spine1"}
    assert far == {Neighbour(switch="spine1", port=None)}


@pytest.mark.parametrize("target", [CABLES[0].upper, CABLES[5].lower])
def test_a_host_that_forges_a_switch_accuses_no_cable_between_switches(target):
    silent = {place: each for place, each in as_built().items() if FABRIC.cable_by_port.get(ref(place)) is None}
    forged = silent | {str(NICS[0].port): Heard(name_of(NICS[0].port), (of_port(target),))}
    forged[NICS[1].id] = Heard("eth2", (of_port(target),))
    found = diagnose(FABRIC, heard(forged))
    assert not found.wrong & FABRIC.cable_by_link.keys()
    assert target not in heard(forged)


def test_a_leaf_cable_in_the_port_of_a_nic_is_believed_where_both_ends_hear_it():
    cable, nic = CABLES[0], next(nic for nic in NICS if nic.port.switch == CABLES[0].lower.switch)
    wrong = exchanged(as_built(), (cable.lower, nic.port))
    wrong[str(cable.upper)] = Heard(name_of(cable.upper), (of_port(nic.port),))
    assert cable.up_link in diagnose(FABRIC, heard(wrong)).wrong


def test_an_empty_report_and_a_report_of_an_unknown_place_are_silence():
    assert heard({"leaf1:1": Heard("Ethernet0"), "leaf99:1": Heard("x", (of_port(CABLES[0].upper),))}) == {}
    assert heard({"h9-n0": Heard("eth2", (of_port(CABLES[0].upper),)), "leaf1:x": Heard("x")}) == {}


def ref(place):
    switch, _, number = place.rpartition(":")
    return PortRef(switch, int(number)) if switch and number.isdecimal() else None
