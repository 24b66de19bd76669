"""What tests of code around Heddle need: a switch that speaks OpenFlow, a clock, and a checker of plans.

    from heddle.testing import FakeClock, FakeSwitch, check_plan

    assert check_plan(heddle.plan(fabric, [job])) == []

`FakeSwitch` is what Heddle's own tests connect to controllers; the same tests run against Open vSwitch. `SwitchTables`
are its rules and groups. `python -m heddle.testing.plans.check_plan` checks a plan file.
"""

from heddle.testing.checked import check_plan
from heddle.testing.clock import FakeClock
from heddle.testing.switches.flow_table import SwitchTables
from heddle.testing.switches.openflow_switch import FakeSwitch

__all__ = ["FakeClock", "FakeSwitch", "SwitchTables", "check_plan"]
