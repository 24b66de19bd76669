"""A full share is reported with its endpoint, once, and again after a while if it goes on."""

import numpy as np

from heddle.dataplane.control.full_shares import FullShares
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.memory.state import FULL

NAMES = {5: "red"}


def rows(*found):
    made = np.zeros(4, FULL)
    for number, (reason, vni, lo, gave_way, refused) in enumerate(found):
        row = made[number]
        row["reason"], row["vni"], row["lo"], row["gave_way"], row["refused"] = reason + 1, vni, lo, gave_way, refused
    return made


A = 0xFFFF_0A00_0001
PORTS = Drop.ENDPOINT_PORTS_LIMITED


def test_an_endpoint_and_its_share_are_named():
    (line,) = FullShares().news(rows((PORTS, 5, A, 4_000, 12)), NAMES, 0.0)
    assert line == (
        "red 10.0.0.1: its share of the NAT ports is full; 12 new connections refused, "
        "4,000 closed or half-open ones gave way to new ones"
    )
    (line,) = FullShares().news(rows((Drop.CONNECTIONS_LIMITED, 9, 7, 0, 1)), NAMES, 0.0)
    assert line.startswith("VNI 9 ::7: its VPC's share of the connections is full; 1 new")


def test_a_report_is_repeated_only_after_a_while_and_only_for_news():
    shares = FullShares()
    assert len(shares.news(rows((PORTS, 5, A, 1, 0)), NAMES, 0.0)) == 1
    assert shares.news(rows((PORTS, 5, A, 900, 3)), NAMES, 30.0) == []
    (line,) = shares.news(rows((PORTS, 5, A, 1_000, 3)), NAMES, 61.0)
    assert "3 new connections refused, 999 closed" in line
    assert shares.news(rows((PORTS, 5, A, 1_000, 3)), NAMES, 200.0) == []


def test_counters_of_a_restarted_data_process_count_from_zero():
    shares = FullShares()
    shares.news(rows((PORTS, 5, A, 1_000, 50)), NAMES, 0.0)
    (line,) = shares.news(rows((PORTS, 5, A, 7, 2)), NAMES, 100.0)
    assert "2 new connections refused, 7 closed" in line


def test_free_rows_are_no_news():
    assert FullShares().news(np.zeros(64, FULL), NAMES, 0.0) == []
