"""With any input, no access is out of bounds, and each packet gets one fate and is counted.

Mutated packets of every kind go through two gateways whose buffers contain different bytes around the packets, with
bounds checked at every access. Rows, sent frames, punted frames and the state must be equal after every burst, which
shows that nothing behind a packet's end is read. The slow path and a partner's records take part (`mutate_packets`).
HEDDLE_FUZZ_CASES=10000000 runs a longer search, HEDDLE_FUZZ_SEED=n another one.
"""

import json
import os
import subprocess
import sys

import pytest

from heddle.dataplane.control.slow.slow_path import Outcome
from heddle.dataplane.engine.reasons import Drop, Punt

CASES = int(os.environ.get("HEDDLE_FUZZ_CASES", "200000"))
SEED = int(os.environ.get("HEDDLE_FUZZ_SEED", "1"))
SLOW_NS = 50_000_000
"""Of the processor, for a burst of 64: a hundred times what the slowest takes."""
COMPILING_S = 900
NEVER = {"NO_NEIGHBOUR", "TRANSMIT_FAILED", "NO_HEAD_ROOM", "TRUNCATED", "BAD_STATE", "LOST", "NO_BACK_END"}
"""Reasons that no packet can have on ports in memory: nothing of the kernel's fails there, no header is longer than the
head room, no process dies; or that would be a mistake of ours, or is a balancer's."""


@pytest.fixture(scope="module")
def found():
    command = (sys.executable, "-m", "tests.fuzz.mutate_packets", str(CASES), str(SEED))
    environment = {**os.environ, "HEDDLE_BOUNDS_CHECK": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=COMPILING_S + CASES // 1000, check=False
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


pytestmark = [pytest.mark.timeout(COMPILING_S + CASES // 1000 + 60), pytest.mark.xdist_group("mutations")]


def test_mutated_packets_cause_no_fault(found):
    assert found["checked"]
    assert found["packets"] >= CASES
    assert found["faults"] == []


def test_each_packet_is_sent_or_counted_once(found):
    assert found["sent"] + sum(found["drops"].values()) + sum(found["punts"].values()) == found["packets"]
    assert found["sent"] - 1000 < sum(found["left"]) <= found["sent"]


def test_no_burst_takes_long(found):
    assert found["slowest_burst_ns"] < SLOW_NS


def test_every_possible_fate_is_reached(found):
    assert {reason.name for reason in Drop} - set(found["drops"]) == NEVER
    assert {reason.name for reason in Punt} - set(found["punts"]) == {"ICMP_ERROR", "NO_ROOM"}
    assert found["packets"] // 10 < found["sent"] < found["packets"] * 9 // 10
    assert min(found["left"]) > 0


def test_the_slow_path_and_the_partners_records_take_part(found):
    # One in 100,000 packets is stale; nothing awaits a copy, as there is no split.
    assert {outcome.value for outcome in Outcome} - set(found["slow_path"]) <= {"stale", "awaits_copy"}
    assert found["records"] // 10 < found["records_refused"] < found["records"]


def test_planted_faults_are_detected(found):
    assert found["missed"] == []
