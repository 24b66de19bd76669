"""With any input, no access of the balancer is out of bounds, and each packet gets one fate and is counted.

HEDDLE_FUZZ_CASES=10000000 runs a longer search, HEDDLE_FUZZ_SEED=n another one.
"""

import json
import os
import subprocess
import sys

import pytest

CASES = min(int(os.environ.get("HEDDLE_FUZZ_CASES", "40000")), 10_000_000)
SEED = int(os.environ.get("HEDDLE_FUZZ_SEED", "1"))
COMPILING_S = 900
pytestmark = [pytest.mark.timeout(COMPILING_S + CASES // 1000 + 60), pytest.mark.xdist_group("mutations")]


@pytest.fixture(scope="module")
def found():
    done = subprocess.run(
        (sys.executable, "-m", "tests.fuzz.mutate_balancer", str(CASES), str(SEED)),
        env={**os.environ, "HEDDLE_BOUNDS_CHECK": "1"},
        capture_output=True, text=True, timeout=COMPILING_S + CASES // 1000, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_mutated_packets_cause_no_fault(found):
    assert found["checked"]
    assert found["packets"] >= CASES
    assert found["faults"] == []


def test_each_packet_is_sent_or_counted_once(found):
    assert found["left"] == found["sent"]
    assert found["sent"] + sum(found["drops"].values()) + sum(found["punts"].values()) == found["packets"]
    assert found["packets"] // 10 < found["sent"] < found["packets"] * 9 // 10


def test_every_branch_takes_part(found):
    wanted = {"SPOOFED_SOURCE", "NO_ROUTE", "NO_STATE", "NO_BACK_END", "BAD_IP_HEADER", "FRAGMENT_WITHOUT_FIRST"}
    assert wanted <= set(found["drops"])
    new, refused, _, displaced, moved, expired, echoed = found["counters"][:7]
    assert min(new, refused, moved, expired, echoed) > 0, displaced
