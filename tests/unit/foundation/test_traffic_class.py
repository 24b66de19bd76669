"""The table of traffic classes is whole, and one row more is enough for SONiC, the lab's queues and its NICs."""

import json
import subprocess
import sys

import pytest

from heddle.foundation.network import Network
from heddle.foundation.traffic_class import CLASS_OF_NETWORK, CLASSES, CNP, DATA, FLOW_CLASSES, OTHER
from tests.support import added_class


def test_every_network_has_a_class_for_its_flows():
    assert set(CLASS_OF_NETWORK) == set(Network)
    assert set(CLASS_OF_NETWORK.values()) <= set(FLOW_CLASSES)


def test_every_class_has_a_name_dscp_and_priority_of_its_own_in_order_of_priority():
    priorities = [each.priority for each in CLASSES]
    assert priorities == sorted(set(priorities))
    assert set(priorities) <= set(range(8))
    assert len({each.dscp for each in CLASSES} & set(range(64))) == len(CLASSES)
    assert len({each.name for each in CLASSES}) == len(CLASSES)


def test_no_class_of_flows_is_strict_and_what_is_unclassified_may_be_dropped():
    assert not any(each.strict for each in (*FLOW_CLASSES, OTHER))
    assert (OTHER.dscp, OTHER.priority, OTHER.lossless) == (0, 0, False)


def test_the_classes_are_those_of_the_contract():
    assert [(each.dscp, each.priority, each.lossless, each.strict) for each in (DATA, CNP)] == [
        (26, 3, True, False),
        (48, 6, False, True),
    ]


@pytest.fixture(scope="module")
def with_backup():
    command = [sys.executable, "-m", added_class.__name__]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


def test_a_row_more_is_exported_to_sonic_without_a_difference(with_backup):
    exported = with_backup["exported"]
    assert with_backup["differences"] == []
    assert exported["DSCP_TO_TC_MAP"]["HEDDLE"]["20"] == "5"
    assert exported["TC_TO_PRIORITY_GROUP_MAP"]["HEDDLE"]["5"] == "5"
    assert {"3", "5"} <= {*exported["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"].split(",")}
    assert exported["QUEUE"]["Ethernet0|5"] == {"scheduler": "HEDDLE_SHARED_100", "wred_profile": "HEDDLE_100000M"}
    assert exported["SCHEDULER"]["HEDDLE_SHARED_100"] == {"type": "DWRR", "weight": "100"}
    assert exported["BUFFER_PG"]["Ethernet0|5"] == exported["BUFFER_PG"]["Ethernet0|3"]


def test_a_row_more_leaves_one_buffer_for_every_queue(with_backup):
    profiles = {}
    for key, row in with_backup["exported"]["BUFFER_QUEUE"].items():
        first, _, last = key.removeprefix("Ethernet0|").partition("-")
        for queue in range(int(first), int(last or first) + 1):
            assert queue not in profiles
            profiles[queue] = row["profile"]
    lossless = {5, *(each.priority for each in CLASSES if each.lossless)}
    assert profiles == {q: "HEDDLE_LOSSLESS_QUEUE" if q in lossless else "HEDDLE_LOSSY_QUEUE" for q in range(8)}


def test_what_a_switch_lacks_of_a_row_more_is_named(with_backup):
    assert {tuple(place) for place in with_backup["planted"]} == set(added_class.PLANTS)


def test_a_row_more_has_a_queue_in_the_lab_and_its_flows_are_sent_in_it(with_backup):
    assert with_backup["flow"][:3] == ["backup", 20, 5]
    used, paused, marked = with_backup["lab"]
    assert used == sorted({5, *(each.priority for each in CLASSES)})
    assert 5 in paused
    assert 5 in marked
    assert with_backup["nic"] == 5
