"""Results that arrive after their transaction has ended."""

import pytest

from controller.brain.decide import decide
from controller.model.effect import Install, Solve
from controller.model.error import InputError
from controller.model.event import Installed, InstallFailed, Solved, Submit
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
