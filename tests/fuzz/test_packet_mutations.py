"""Whatever packets come in, no element reads or writes out of bounds, and each packet ends once and is counted.

Mutated packets of every kind go through two gateways, with bounds checked at every access, whose buffers hold different
rubbish around the packets: rows, what leaves, and the state must be the same after every burst, so that nothing behind
a packet's end is ever looked at. HEDDLE_FUZZ_CASES=10000000 runs a longer search, HEDDLE_FUZZ_SEED=n another one.
"""

import json
import os
import subprocess
import sys

import pytest

CASES = int(os.environ.get("HEDDLE_FUZZ_CASES", "100000"))
SEED = int(os.environ.get("HEDDLE_FUZZ_SEED", "1"))
SLOW_NS = 50_000_000
"""Of the processor, for a burst of 64: a hundred times what the slowest takes."""
COMPILING_S = 900


@pytest.fixture(scope="module")
def found():
    command = (sys.executable, "-m", "tests.fuzz.mutate_packets", str(CASES), str(SEED))
    environment = {**os.environ, "HEDDLE_BOUNDS_CHECK": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=COMPILING_S + CASES // 1000, check=False
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


pytestmark = pytest.mark.timeout(COMPILING_S + CASES // 1000 + 60)


def test_mutated_packets_break_nothing(found):
    assert found["checked"]
    assert found["packets"] >= CASES
    assert found["faults"] == []


def test_each_is_sent_or_counted_once(found):
    ends = sum(found["left"]) + sum(found["drops"].values()) + sum(found["punts"].values())
    assert ends == found["packets"]
    assert "BAD_STATE" not in found["drops"]


def test_no_burst_takes_long(found):
    assert found["slowest_burst_ns"] < SLOW_NS


def test_mutations_are_neither_too_tame_nor_too_wild(found):
    assert found["packets"] // 10 < sum(found["left"]) < found["packets"] * 9 // 10
    assert min(found["left"]) > 0
    assert len(found["drops"]) >= 20
    assert {"ARP", "NEIGHBOUR", "FOR_GATEWAY", "TTL_EXPIRED"} <= set(found["punts"])
