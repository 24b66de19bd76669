"""Settings of every test."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import hypothesis_profile  # noqa: F401 - loads the profile
from tests.support.example_limit import limited
from tests.support.packets import scapy_apart  # noqa: F401 - before a test imports scapy

os.environ["HEDDLE_STATE"] = "none"
"""A controller that a test starts shares no state with others; tests of the journal name a directory."""
gc.set_threshold(50_000)  # at 700, Python's own, a third of the time to collect the tests went into garbage collection
END_TO_END = Path(__file__).parent / "e2e"
"""All tests in it are marked e2e (tests/unit/test_house.py)."""
LONGEST_FIRST = (
    # without root
    "test_packet_mutations",
    "test_balancer_mutations",
    "test_tenants_stay_apart",
    "test_fabric_apply",
    "test_vpc",
    "test_supervisor",
    "test_planner_pool",
    "test_faults",
    "test_closed_loop_machine",
    "test_operating",
    "test_controller_killed",
    "test_tls",
    "test_views",
    "test_dissection",
    "test_direct_return",
    "test_planner_plans",
    "test_cluster",
    "test_opposite_intents",
    "test_exec",
    "test_replay",
    "test_memory",
    "test_gateway_verdicts",
    "test_rules_change_without_loss",
    "test_rules_carry_traffic",
    "test_tunnel_marks",
    "test_ports_accounting",
    "test_gateway_lifetime",
    "test_gateway_service",
    "test_verify",
    "test_plain_packets",
    "test_recording",
    # end to end
    "test_gateway_process",
    "test_vpc_controlled",
    "test_gateway_takeover",
    "test_lab_vpc_command",
    "test_planned_paths",
    "test_balancer_process",
    "test_vpc_reach",
    "test_gateway_changes",
    "test_faults_in_any_order",
    "test_telemetry_restarts",
    "test_vpc_gateway",
    "test_demo",
    "test_vtep_agent",
    "test_gateway_controlled",
    "test_nat_under_load",
    "test_balancer_under_change",
    "test_vpc_lab_pair",
    "test_slurm_jobs",
    "test_gateway_pair",
    "test_gateway_refusals",
    "test_gateway_spread",
    "test_lab_fabric",
    "test_cabling",
    "test_nic_pair",
    "test_ports_carry",
    "test_gateway_attached",
    "test_partitions",
    "test_ports_life",
    "test_lab_life",
    "test_lab_of_routers",
    "test_lab_traffic",
    "test_balancer_controlled",
    # end to end, two at a time
    "test_lab_queues",
    "test_hog",
    "test_pfc_storm",
    "test_closed_loop",
    "test_lab_congestion",
    "test_lab_measured_flows",
    "test_fabric_grows",
    "test_routed_cuts",
)
"""Files of tests that take long. Workers begin with them: one that a worker takes last leaves the others idle."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without a test of those that are selected: each worker imports what it collects."""
    selected = config.option.markexpr
    if selected.startswith("not e2e"):
        return collection_path == END_TO_END or None
    if not selected.startswith("e2e") or not collection_path.name.startswith("test_"):
        return None
    mark = "mark.alone" if selected.startswith("e2e and alone") else "mark.e2e"
    # A conftest.py may mark the tests of its directory.
    sources = [collection_path, collection_path.parent / "conftest.py"]
    if any(path.is_file() and mark in path.read_text() for path in sources):
        return None
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; everything else stays in its random order."""
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(Path(item.path).stem, len(places)))


def pytest_collection_finish() -> None:
    """Exclude modules and tests from garbage collection: they stay, and each full pass walked them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Limit the time of each example of an asynchronous property test."""
    with limited(item):
        yield
