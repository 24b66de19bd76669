"""Connections from one gateway's state to another's, through both ends of the exchange."""

from typing import Any

import numpy as np
import pytest

from dataplane.config.local import Limits
from dataplane.gateway.compiler.compile import compile_tables
from dataplane.gateway.memory.exchange import ROWS, ControlEnd, empty_exchange, exchange
from dataplane.gateway.memory.state import ENDED, RECORD, UPDATED, empty_state
from dataplane.gateway.tables.schema import ESTABLISHED, FROM_PARTNER, SEEN_REPLY
from tests.fakes.gateway.slow_network import RED, local_config, network_config

pytestmark = pytest.mark.timeout(900)  # the first to run compiles the kernels

V4 = 0xFFFF_0000_0000
TABLES = compile_tables(local_config(), network_config(), neighbours={}, generation=1)
SECOND = 1_000_000_000


class Gateway:
    def __init__(self) -> None:
        self.state = empty_state(Limits(connections=1 << 14, mappings=1 << 8, fragments=1 << 6))
        self.between = empty_exchange()
        self.control = ControlEnd(self.between)
        self.now = SECOND

    def work(self) -> None:
        exchange(TABLES, self.state, self.between, self.now)

    def apply_records(self, records: Any) -> None:
        """Let all these records in, as if the partner had told them."""
        data = records.tobytes()
        while data:
            data = data[self.control.keep(data) :]
            self.work()
        while not self.control.kept():
            self.work()

    def connections(self) -> dict[tuple[int, int, int], int]:
        """Return flags by addresses and key, of the directions that opened them."""
        rows = self.state.connections
        used = rows[rows["key"] != 0]
        return {
            (int(row["source_lo"]), int(row["target_lo"]), int(row["key"])): int(row["flags"])
            for row in used
            if not row["flags"] & 1
        }


def told(count: int, what: int = UPDATED, first: int = 0) -> Any:
    """Return records of TCP connections of one endpoint, by port."""
    records = np.zeros(count, RECORD)
    for number in range(count):
        row, port = records[number], 1024 + (first + number)
        row["what"], row["flags"], row["out_vni"] = what, SEEN_REPLY | ESTABLISHED, RED
        row["source_lo"] = row["new_source_lo"] = V4 | 0xC0A80105
        row["target_lo"] = row["new_target_lo"] = V4 | 0xC0A80106
        row["new_ports"] = port << 16 | 443
        row["key"] = int(row["new_ports"]) << 32 | 6 << 24 | RED
    return records


def copy_all(one: Gateway, other: Gateway) -> int:
    """Let one tell the other until there is nothing left; return how many records that took."""
    count, exhausted = 0, False
    while not exhausted:
        one.work()
        records, exhausted = one.control.collect(100 * RECORD.itemsize)
        count += len(records) // RECORD.itemsize
        other.apply_records(np.frombuffer(records, RECORD))
    return count


def test_without_a_partner_nothing_is_told() -> None:
    gateway = Gateway()
    gateway.apply_records(told(10))
    gateway.work()
    assert gateway.control.collect(1 << 20)[0] == b""


@pytest.mark.parametrize("count", [1, 700, ROWS + 100])
def test_a_partner_that_comes_is_told_all_and_knows_them_as_ours(count: int) -> None:
    one, other = Gateway(), Gateway()
    one.apply_records(told(count))
    one.control.request_all()
    assert copy_all(one, other) == count
    assert other.connections() == one.connections()
    assert set(other.connections().values()) == {SEEN_REPLY | ESTABLISHED | FROM_PARTNER}


def test_a_partner_that_lost_everything_is_told_again_what_it_had_told() -> None:
    one, other = Gateway(), Gateway()
    one.apply_records(told(50))
    one.control.request_all()
    copy_all(one, other)
    reborn = Gateway()
    other.control.request_all()
    assert copy_all(other, reborn) == 50
    assert reborn.connections() == one.connections()


def test_what_is_told_again_is_told_once() -> None:
    one, other = Gateway(), Gateway()
    one.apply_records(told(50))
    one.control.request_all()
    copy_all(one, other)
    one.work()
    assert one.control.collect(1 << 20) == (b"", True)
    one.control.request_all()
    assert one.control.collect(1 << 20) == (b"", False)  # nothing yet, and more to come
    assert copy_all(one, other) == 50


def test_who_stops_listening_and_comes_back_is_told_all() -> None:
    one, other = Gateway(), Gateway()
    one.apply_records(told(5))
    one.control.request_all()
    copy_all(one, other)
    one.control.stop_journal()
    one.control.request_all()  # before the data process looked
    assert copy_all(one, Gateway()) == 5


def test_an_end_is_taken_in_after_what_it_ends() -> None:
    gateway = Gateway()
    gateway.apply_records(told(100))
    gateway.apply_records(told(40, ENDED, first=10))
    assert len(gateway.connections()) == 60


def test_a_full_ring_takes_what_fits_and_the_rest_later() -> None:
    gateway = Gateway()
    data = told(ROWS + 10).tobytes()
    first = gateway.control.keep(data)
    assert first == ROWS * RECORD.itemsize
    assert gateway.control.keep(data[first:]) == 0
    assert not gateway.control.kept()
    gateway.work()
    assert gateway.control.keep(data[first:]) == 10 * RECORD.itemsize


def test_records_that_are_of_no_use_are_refused_and_counted() -> None:
    gateway = Gateway()
    bad = told(3)
    bad["key"][0] = 0
    bad["what"][1] = 77
    gateway.apply_records(bad)
    assert gateway.control.refused() == 2
    assert len(gateway.connections()) == 1
