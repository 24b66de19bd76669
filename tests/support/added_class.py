"""Add a row to the table of traffic classes, then print as JSON what SONiC's settings and the lab make of it.

A program of its own: the table is read when its users are imported.
"""

import json
import re
import sys
import types
from importlib.util import find_spec
from pathlib import Path

ADDED = 'ADDED = TrafficClass("backup", dscp=20, priority=5, lossless=True, weight=100, ecn=True)'


def add_the_row() -> None:
    found = find_spec("heddle.foundation.traffic_class")
    assert found is not None
    assert found.origin is not None
    text = Path(found.origin).read_text()
    changed = re.sub(r"^CLASSES = (.*), CNP", rf"{ADDED}\nCLASSES = \1, ADDED, CNP", text, flags=re.MULTILINE)
    changed = re.sub("Network.MANAGEMENT: [A-Z]+", "Network.MANAGEMENT: ADDED", changed)
    assert changed.count("ADDED") == 3
    table = types.ModuleType("heddle.foundation.traffic_class")
    exec(compile(changed, found.origin, "exec"), table.__dict__)
    sys.modules["heddle.foundation.traffic_class"] = table


def print_it() -> None:
    from heddle.controller.model.fabric import Nic, PortRef
    from heddle.controller.sonic.config_db import ConfigDb
    from heddle.controller.sonic.differences import differences
    from heddle.controller.sonic.export import PortNames, config_tables
    from heddle.foundation.network import Network
    from heddle.mininet_topos.queues.settings import QueueSettings
    from heddle.mininet_topos.wire import roce

    nic = Nic(id="n", host="h", ip=1, mac=1, port=PortRef("leaf1", 1), capacity_bps=1, network=Network.MANAGEMENT)
    exported = config_tables({1: 100_000}, PortNames(), 40)
    planted = config_tables({1: 100_000}, PortNames(), 40)
    for table, key, field in PLANTS:
        del planted[table][key][field]
    settings = QueueSettings()
    json.dump({
        "flow": nic.traffic_class,
        "exported": exported,
        "differences": [str(each) for each in differences(ConfigDb(exported))],
        "planted": [each.place for each in differences(ConfigDb(planted))],
        "lab": [settings.used, settings.pausable, sorted(settings.marked)],
        "nic": roce.priority(nic.traffic_class.dscp << 2),
    }, sys.stdout)  # fmt: skip


PLANTS = (
    ("DSCP_TO_TC_MAP", "HEDDLE", "20"), ("TC_TO_QUEUE_MAP", "HEDDLE", "5"), ("TC_TO_PRIORITY_GROUP_MAP", "HEDDLE", "5"),
    ("MAP_PFC_PRIORITY_TO_QUEUE", "HEDDLE", "5"), ("SCHEDULER", "HEDDLE_SHARED_100", "weight"),
    ("QUEUE", "Ethernet0|5", "wred_profile"), ("BUFFER_PG", "Ethernet0|5", "profile"),
)  # fmt: skip

if __name__ == "__main__":
    add_the_row()
    print_it()
