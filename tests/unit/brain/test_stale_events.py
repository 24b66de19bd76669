"""Results that arrive after their transaction has ended."""

import pytest

from heddle.controller.brain.decide import decide
from heddle.controller.model.effect import Install, Solve
from heddle.controller.model.error import InputError
from heddle.controller.model.event import (
    Congested,
    HotLink,
    Installed,
    InstallFailed,
    PortStatus,
    RulesRead,
    Solved,
    Submit,
    SwitchDown,
    SwitchUp,
)
from heddle.controller.model.rule import SwitchRules
from tests.unit.brain.driver import Driver, shift_job, small_fabric

RESULTS = {
    "plan": lambda token: Solved(token=token, outcome=InputError("late"), solve_ns=1),
    "acknowledgement": lambda token: Installed(token=token, install_ns=1),
    "failure": lambda token: InstallFailed(token=token, switch="leaf1", reason="late"),
}


@pytest.mark.parametrize("held", [(Solve,), (Install,), ()], ids=["planning", "installing", "idle"])
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS.keys())
def test_the_result_of_another_transaction_changes_nothing(result, held):
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.hold = held
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert decide(driver.state, result(driver.state.next_token), driver.now) == (driver.state, ())


UNKNOWN = {
    "telemetry": Congested(
        hot=(
            HotLink(
                port="gone:1", link="gone:1>gone:2", priority=3, measured_bps=10**9, planned_bps=1, excess_bps=10**9
            ),
        ),
        stale=("gone:2",),
    ),
    "port of a switch": PortStatus(switch="leaf1", port=999, up=False),
    "port": PortStatus(switch="gone", port=1, up=False),
    "session": SwitchUp(switch="gone", ports={1: False}, installed=SwitchRules()),
    "end of a session": SwitchDown(switch="gone", reason="unknown"),
    "rules": RulesRead(switch="gone", installed=SwitchRules()),
}


@pytest.mark.parametrize("event", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_event_of_what_the_fabric_does_not_have_changes_nothing(event):
    driver = Driver(small_fabric())
    driver.connect_all()
    assert decide(driver.state, event, driver.now) == (driver.state, ())
