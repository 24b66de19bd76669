"""Every steering has every row, and one that overrides nothing is a whole one."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from heddle.controller.brain.decide import decide
from heddle.controller.brain.steering.interface import Steering
from heddle.controller.brain.steering.table import STEERINGS
from heddle.controller.config.fabric_file import FabricShape
from heddle.controller.model.effect import FindPorts, Install, Solve
from heddle.controller.model.event import Compiled, PortsAstray, PortsFound, PortStatus, Submit
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.steering_traits import TRAITS, SteeringTraits
from heddle.controller.views.view import explain
from heddle.probing.flow import Found
from tests.unit.brain.driver import Driver, shift_job, small_fabric

FILES = Path(__file__).parents[3] / "docs" / "files.md"


@pytest.mark.parametrize("table", [TRAITS, STEERINGS], ids=["traits", "brain"])
def test_every_steering_has_a_row(table):
    assert table.keys() == set(SteeredBy)


def test_the_fabric_file_and_its_documentation_have_every_steering():
    assert get_args(FabricShape.model_fields["steering"].annotation) == tuple(each.value for each in SteeredBy)
    (row,) = [line for line in FILES.read_text().splitlines() if line.startswith("| `steering` | `openflow`")]
    assert [each for each in SteeredBy if f"`{each.value}`:" not in row] == []


def test_a_steering_that_overrides_nothing_runs_a_job_as_soon_as_it_is_planned(monkeypatch):
    monkeypatch.setitem(STEERINGS, SteeredBy.HASH, Steering())
    monkeypatch.setitem(TRAITS, SteeredBy.HASH, SteeringTraits())
    driver = Driver(replace(small_fabric(), steered_by=SteeredBy.HASH))
    driver.feed(Submit(reply=1, request=shift_job("a")))
    plan = driver.reply_to(1)
    assert isinstance(plan, JobPlan)
    assert (plan.state, plan.certificate.probed) == (JobState.RUNNING, False)
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    assert driver.state.jobs["a"].generation == 2
    assert not any(isinstance(effect, FindPorts) for effect in driver.effects)
    assert not any(effect.steps for effect in driver.effects if isinstance(effect, Install))
    flow = driver.state.jobs["a"].flows.flows[0]
    assert explain(driver.state, flow.flow_id).hops == flow.links


@pytest.mark.parametrize(
    ("steered_by", "event"),
    [
        (SteeredBy.OPENFLOW, PortsFound(token=1, found=Found({}, {}, 0), search_ns=0)),
        (SteeredBy.OPENFLOW, PortsAstray(leaves=("leaf1",))),
        (SteeredBy.HASH, Compiled(token=1, underlay={}, differing=frozenset(), pins={})),
    ],
    ids=lambda value: str(value) if isinstance(value, SteeredBy) else type(value).__name__,
)
def test_an_event_of_another_steering_changes_nothing(steered_by, event):
    driver = Driver(replace(small_fabric(), steered_by=steered_by), hold=(Solve,))
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert decide(driver.state, event, driver.now) == (driver.state, ())
