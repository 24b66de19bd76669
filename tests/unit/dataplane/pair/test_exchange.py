"""Connection records from one gateway's state to another's, through both ends of the exchange."""

from typing import Any

import numpy as np
import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.exchange import ROWS, ControlEnd, empty_exchange
from heddle.dataplane.elements.memory.state import ENDED, RECORD, UPDATED
from heddle.dataplane.gateway.memory.exchange import exchange
from heddle.dataplane.gateway.memory.state import ESTABLISHED, FROM_PARTNER, SEEN_REPLY, empty_state
from heddle.dataplane.tables.compiler.compile import compile_tables
from tests.fakes.gateway.slow_network import RED, local_config, network_config

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

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
        """Write records to the exchange, as if the partner had sent them."""
        data = records.tobytes()
        while data:
            data = data[self.control.keep(data) :]
            self.work()
        while not self.control.kept():
            self.work()

    def connections(self) -> dict[tuple[int, int, int], int]:
        """Return flags by addresses and key, of the openers' rows."""
        rows = self.state.connections
        used = rows[rows["key"] != 0]
        return {
            (int(row["source_lo"]), int(row["target_lo"]), int(row["key"])): int(row["flags"])
            for row in used
            if not row["flags"] & 1
        }


def records_of(count: int, what: int = UPDATED, first: int = 0) -> Any:
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
    """Replicate from one gateway to the other until nothing is left; return how many records that took."""
    count, exhausted = 0, False
    while not exhausted:
        one.work()
        records, exhausted = one.control.collect(100 * RECORD.itemsize)
        count += len(records) // RECORD.itemsize
        other.apply_records(np.frombuffer(records, RECORD))
    return count


def test_without_a_partner_no_records_are_written() -> None:
    gateway = Gateway()
    gateway.apply_records(records_of(10))
    gateway.work()
    assert gateway.control.collect(1 << 20)[0] == b""


@pytest.mark.parametrize("count", [1, 700, ROWS + 100])
def test_a_new_partner_gets_all_connections_marked_as_received(count: int) -> None:
    one, other = Gateway(), Gateway()
    one.apply_records(records_of(count))
    one.control.request_all()
    assert copy_all(one, other) == count
    assert other.connections() == one.connections()
    assert set(other.connections().values()) == {SEEN_REPLY | ESTABLISHED | FROM_PARTNER}


def test_a_restarted_partner_gets_back_its_own_connections() -> None:
    one, other = Gateway(), Gateway()
    one.apply_records(records_of(50))
    one.control.request_all()
    copy_all(one, other)
    reborn = Gateway()
    other.control.request_all()
    assert copy_all(other, reborn) == 50
    assert reborn.connections() == one.connections()


def test_a_resend_contains_each_connection_once() -> None:
    one, other = Gateway(), Gateway()
    one.apply_records(records_of(50))
    one.control.request_all()
    copy_all(one, other)
    one.work()
    assert one.control.collect(1 << 20) == (b"", True)
    one.control.request_all()
    assert one.control.collect(1 << 20) == (b"", False)  # nothing yet, and more to come
    assert copy_all(one, other) == 50


def test_a_partner_that_detaches_and_returns_gets_all_connections() -> None:
    one, other = Gateway(), Gateway()
    one.apply_records(records_of(5))
    one.control.request_all()
    copy_all(one, other)
    one.control.stop_journal()
    one.control.request_all()  # before the data process has read the request
    assert copy_all(one, Gateway()) == 5


def test_an_end_is_applied_after_the_record_of_its_connection() -> None:
    gateway = Gateway()
    gateway.apply_records(records_of(100))
    gateway.apply_records(records_of(40, ENDED, first=10))
    assert len(gateway.connections()) == 60


def test_a_full_ring_takes_what_fits_and_the_rest_later() -> None:
    gateway = Gateway()
    data = records_of(ROWS + 10).tobytes()
    first = gateway.control.keep(data)
    assert first == ROWS * RECORD.itemsize
    assert gateway.control.keep(data[first:]) == 0
    assert not gateway.control.kept()
    gateway.work()
    assert gateway.control.keep(data[first:]) == 10 * RECORD.itemsize


def test_invalid_records_are_refused_and_counted() -> None:
    gateway = Gateway()
    bad = records_of(3)
    bad["key"][0] = 0
    bad["what"][1] = 77
    gateway.apply_records(bad)
    assert gateway.control.refused() == 2
    assert len(gateway.connections()) == 1
