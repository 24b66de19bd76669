"""Both forms of JSON that lldpcli prints say the same: json0 with a list at every place, json with names as keys."""

import pytest

from heddle.telemetry.neighbours.advertised import NeighboursError
from heddle.telemetry.neighbours.lldpd import neighbours

MAC = {"type": "mac", "value": "02:00:00:00:00:51"}
PORT = {"type": "ifname", "value": "swp7"}
AGE = "1 day, 00:00:05"


def json0(*interfaces):
    return {"lldp": [{"interface": [{"name": name, "age": AGE, **rest} for name, rest in interfaces]}]}


LISTED = {
    "chassis": [{"id": [MAC], "name": [{"value": "spine1"}]}],
    "port": [{"id": [PORT], "descr": [{"value": "up"}]}],
}
NAMED = {"age": AGE, "chassis": {"spine1": {"id": MAC}}, "port": {"id": PORT, "descr": "up"}}
FORMS = {
    "one interface": ([{"swp1": NAMED}], json0(("swp1", LISTED))),
    "one interface, not in a list": ({"swp1": NAMED}, json0(("swp1", LISTED))),
    "two interfaces": ([{"swp1": NAMED}, {"swp2": NAMED}], json0(("swp1", LISTED), ("swp2", LISTED))),
    "two in one object": ({"swp1": NAMED, "swp2": NAMED}, json0(("swp1", LISTED), ("swp2", LISTED))),
    "two neighbours of one interface": ([{"swp1": NAMED}, {"swp1": NAMED}], json0(("swp1", LISTED), ("swp1", LISTED))),
    "none": ([], json0()),
    "a chassis without a name": (
        [{"swp1": {**NAMED, "chassis": {"id": MAC}}}],
        json0(("swp1", {**LISTED, "chassis": [{"id": [MAC]}]})),
    ),
    "a chassis that is called id": (
        [{"swp1": {**NAMED, "chassis": {"id": {"id": MAC}}}}],
        json0(("swp1", {**LISTED, "chassis": [{"id": [MAC], "name": [{"value": "id"}]}]})),
    ),
}


@pytest.mark.parametrize(("interface", "same"), FORMS.values(), ids=FORMS)
def test_json_says_what_json0_says(interface, same):
    assert neighbours("leaf1", {"lldp": {"interface": interface}}) == neighbours("leaf1", same)


def test_an_empty_object_is_a_node_without_neighbours_and_another_one_is_refused():
    assert neighbours("leaf1", {"lldp": {}}) == neighbours("leaf1", json0())
    with pytest.raises(NeighboursError, match="must be what"):
        neighbours("leaf1", {"lldp": {"chassis": {}}})


def test_what_is_read_of_json():
    (found,) = neighbours("leaf1", {"lldp": {"interface": {"swp1": NAMED}}}).advertised
    assert (found.interface, found.system, found.chassis) == ("swp1", "spine1", MAC["value"])
    assert (found.ports, found.age_s) == (("swp7", "up"), 86_405)


@pytest.mark.parametrize("interface", [7, ["swp1"], {"swp1": 7}, [{"swp1": [7]}]])
def test_other_values_are_refused_with_the_place(interface):
    with pytest.raises(NeighboursError, match=r"leaf1: lldp\.interface: must be objects by the interface's name"):
        neighbours("leaf1", {"lldp": {"interface": interface}})
