"""Thresholds scale with the link and keep their order; inconsistent settings are refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.foundation.traffic_class import CNP, DATA, OTHER, TrafficClass
from heddle.mininet_topos.queues.attach import UNBOUNDED, limit_value
from heddle.mininet_topos.queues.classes import class_commands
from heddle.mininet_topos.queues.description import SwitchPort
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.wire.shaping import FULL_FRAME_BYTES


@given(st.integers(1_000, 10**10))
def test_thresholds_keep_their_order_at_any_rate(rate_bps):
    limits = QueueSettings().at(rate_bps)
    assert 4 * FULL_FRAME_BYTES <= limits.kmin_bytes < limits.kmax_bytes <= limits.buffer_bytes
    assert limits.xon_bytes < limits.xoff_bytes
    assert limits.headroom_bytes > limits.xoff_bytes


def test_a_threshold_is_the_same_time_on_every_link():
    settings = QueueSettings()
    assert settings.at(100_000_000).kmin_bytes == 5 * settings.at(20_000_000).kmin_bytes == 5 * settings.kmin_bytes


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"kmin_bytes": 90_000}, "kmin_bytes"),
        ({"pmax": 0}, "pmax"),
        ({"pmax": 1.5}, "pmax"),
        ({"xon_bytes": 50_000}, "xon_bytes"),
        ({"headroom_bytes": 0}, "headroom_bytes"),
        ({"buffer_bytes": 100}, "buffer_bytes"),
        ({"tick_ms": 0}, "tick_ms"),
        ({"page_period_ms": 0}, "page_period_ms"),
        ({"watchdog_detection_ms": 99}, "watchdog_detection_ms"),
        ({"watchdog_detection_ms": 400, "watchdog_fabric_detection_ms": 300}, "watchdog_fabric_detection_ms"),
        ({"watchdog_restoration_ms": 60_001}, "watchdog_restoration_ms"),
        ({"classes": (OTHER, DATA._replace(dscp=64))}, "DSCP"),
        ({"classes": (OTHER, DATA._replace(priority=8))}, "priority"),
        ({"classes": (OTHER, DATA, CNP._replace(priority=3))}, "of its own"),
        ({"classes": (OTHER, DATA._replace(weight=0))}, "lossless or strict"),
        ({"classes": (DATA,)}, "priority 0"),
        ({"classes": (OTHER._replace(lossless=True),)}, "priority 0"),
    ],
)
def test_inconsistent_settings_are_refused_by_name(wrong, name):
    with pytest.raises(ValueError, match=name):
        QueueSettings(**wrong)


def limits_of(priority: int, settings: QueueSettings) -> tuple[int, ...]:
    port = SwitchPort(name="leaf1:1", interface="x", switch=1, peer=None, rate_bps=20_000_000)
    return struct.unpack("<6I", limit_value(port, priority, settings))


def test_a_lossless_priority_is_bounded_at_ingress_and_any_other_at_egress():
    settings = QueueSettings()
    _, _, pmax, queue, arrival, frame = limits_of(3, settings)
    assert (pmax, queue, arrival, frame) == (13107, UNBOUNDED, 40_000 + 220_000, 4300)
    assert limits_of(0, settings)[3:5] == (400_000, UNBOUNDED)
    assert limits_of(3, QueueSettings(pfc=False))[3:5] == (400_000, UNBOUNDED)


def test_neither_strict_priorities_nor_anything_with_ecn_off_is_marked():
    assert limits_of(6, QueueSettings())[2] == 0
    assert limits_of(3, QueueSettings(ecn=False))[2] == 0


def test_cnps_come_first_and_only_pausable_priorities_have_a_token_bucket():
    commands = class_commands("x", 20_000_000, QueueSettings())
    orders = {line.split()[7]: line.split()[line.split().index("prio") + 1] for line in commands if " prio " in line}
    assert orders == {"1:10": "1", "1:13": "1", "1:16": "0"}
    assert [line.split()[5] for line in commands if " tbf " in line] == ["1:13"]
    assert not [line for line in class_commands("x", 20_000_000, QueueSettings(pfc=False)) if " tbf " in line]


STORAGE = TrafficClass("storage", dscp=10, priority=4, lossless=True, weight=100, ecn=False)


def test_a_class_that_is_added_has_its_own_queue_share_and_bounds():
    settings = QueueSettings(classes=(OTHER, DATA, STORAGE, CNP))
    commands = class_commands("x", 20_000_000, settings)
    quanta = {line.split()[7]: line.split()[-1] for line in commands if " prio " in line}
    assert quanta == {"1:10": "9014", "1:13": "9014", "1:14": "18028", "1:16": "9014"}
    assert [line.split()[5] for line in commands if " tbf " in line] == ["1:13", "1:14"]
    assert limits_of(4, settings) == (*limits_of(3, settings)[:2], 0, *limits_of(3, settings)[3:])
