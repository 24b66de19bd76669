"""What is said of access lists, against packets that meet the rules one by one."""

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.sonic.acl_differences import acl_differences
from heddle.controller.sonic.config_db import ConfigDb
from tests.support.examples import examples

SOURCES = ("10.0.0.1", "10.0.0.2")
PORTS = (49_152, 50_000, 65_535)
MATCHES = {
    "IP_PROTOCOL": st.sampled_from([6, 17]),
    "L4_DST_PORT": st.sampled_from([22, 4791]),
    "L4_SRC_PORT_RANGE": st.sampled_from([(0, 100), (49_152, 65_535), (50_000, 60_000)]),
    "DSCP": st.sampled_from([0, 26, 48]),
    "SRC_IP": st.sampled_from(SOURCES),
}
DATA, CNP = 26, 48
RULE = st.tuples(
    st.sampled_from(["FORWARD", "DROP", "REDIRECT:Ethernet8"]), st.fixed_dictionaries({}, optional=MATCHES)
)


def _meets(match, source, port, dscp):
    """Return whether a RoCE packet from an address and a port, with a DSCP, meets a rule."""
    low, high = match.get("L4_SRC_PORT_RANGE", (0, 65_535))
    packet = {"IP_PROTOCOL": 17, "L4_DST_PORT": 4791, "DSCP": dscp, "SRC_IP": source}
    return low <= port <= high and all(packet[field] == value for field, value in match.items() if field in packet)


def _is_lost(rules, dscp):
    """Return whether a rule takes all packets of a DSCP, and no rule before it forwards any."""
    packets = [(source, port, dscp) for source in SOURCES for port in PORTS]
    for action, match in rules:
        met = [_meets(match, *packet) for packet in packets]
        if action == "FORWARD" and any(met):
            return False
        if action != "FORWARD" and all(met):
            return True
    return False


@settings(max_examples=examples(400))
@given(st.lists(RULE, max_size=5))
def test_a_difference_means_that_all_packets_are_taken_and_none_said_that_none_are(rules):
    rows = {
        f"T|{at}": {
            "PRIORITY": str(50 - at),
            "PACKET_ACTION": action,
            **{
                field: "-".join(map(str, value)) if isinstance(value, tuple) else str(value)
                for field, value in match.items()
            },
        }
        for at, (action, match) in enumerate(rules)
    }
    tables: Any = {
        "PORT": {"Ethernet0": {"admin_status": "up"}},
        "ACL_TABLE": {"T": {"type": "L3", "ports": ["Ethernet0"]}},
        "ACL_RULE": rows,
    }
    found = list(acl_differences(ConfigDb(tables)))
    for name, dscp in (("data", DATA), ("CNPs", CNP)):
        of_class = [each.is_note for each in found if re.search(rf"\((data and )?{name}\b", each.reason)]
        actions = [
            next((action for action, match in rules if _meets(match, source, port, dscp)), "FORWARD")
            for source in SOURCES
            for port in PORTS
        ]
        assert (False in of_class) == _is_lost(rules, dscp)
        if False in of_class:
            assert "FORWARD" not in actions
        if not of_class:
            assert set(actions) == {"FORWARD"}
