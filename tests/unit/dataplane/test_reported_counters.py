"""What a gateway or a balancer reports of its tables: rows in use, of those there are."""

import pytest

from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.control.session.membership import counters_of
from heddle.dataplane.control.status import Occupancy, Status

GATEWAY = {"connections": Occupancy(used=70, room=128), "mappings": Occupancy(used=9, room=64)}
BALANCER = {f"connections_{state}": Occupancy(used=20, room=512) for state in ("half_open", "established")}


@pytest.mark.parametrize(("tables", "wanted"), [(GATEWAY, (70, 128, 9, 64)), (BALANCER, (40, 512, 0, 0))])
def test_rows_in_use_and_capacity_are_those_of_the_tables(tables, wanted):
    status = Status(
        gateway_id="gw1", pid=1, backend="", notices=(), configured=0, generation_offered=0, generation_in_use=0,
        restarts=0, hangs=0, busy_ns=0, ports={}, drops={}, punts={}, tables=tables,
    )  # fmt: skip
    found = counters_of(LocalConfig(gateway_id="gw1", interfaces=()), status, active=True)
    assert (found.connections, found.connections_limit, found.nat_mappings, found.nat_mappings_limit) == wanted
