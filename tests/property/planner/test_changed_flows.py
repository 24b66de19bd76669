"""The flows that a table says have changed are those whose flow plans differ."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.health import Health
from heddle.controller.model.plan import Plan
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.planner.solve import solve
from tests.support.examples import examples
from tests.unit.brain.driver import shift_job, small_fabric

FABRIC = small_fabric()


def table(name: str = "a") -> FlowTable:
    plan = solve(FABRIC, (shift_job(name),), health=Health())
    assert isinstance(plan, Plan)
    found = plan.jobs[0].flows
    assert isinstance(found, FlowTable)
    return found


BEFORE = table()
ROWS = st.lists(st.integers(0, len(BEFORE) - 1), unique=True, max_size=4)
COLUMNS = ("hops", "ports", "reverse_hops", "reverse_ports", "rates")


def edited(draw_rows: dict[str, list[int]], turns: list[int] | None, exceeding: list[int] | None) -> FlowTable:
    """Return the table with other values in the given rows of each column, turns with as many slots, and flows that may
    exceed their rates."""
    columns = {name: getattr(BEFORE, name).copy() for name in COLUMNS}
    for name, rows in draw_rows.items():
        columns[name][rows] = np.roll(columns[name], 1, axis=0)[rows] if columns[name].ndim > 1 else 7
    slots = np.array(turns, dtype=np.int64) if turns is not None else None
    found = Turns(slot=np.zeros_like(slots), slots=slots, slot_ns=slots) if slots is not None else None
    rates = columns.pop("rates")
    conserving = np.isin(np.arange(len(BEFORE)), exceeding) if exceeding is not None else None
    return FlowTable(BEFORE.topology, BEFORE.request, Paths(flows=BEFORE.flows, **columns), rates, found, conserving)


@given(
    st.dictionaries(st.sampled_from(COLUMNS), ROWS),
    st.none() | st.lists(st.sampled_from((0, 2)), min_size=len(BEFORE), max_size=len(BEFORE)),
    st.none() | ROWS,
)
@settings(max_examples=examples(60), deadline=None)
def test_changed_flows_are_those_that_differ(rows, turns, exceeding):
    after = edited(rows, turns, exceeding)
    expected = [now for now, was in zip(list(after), list(BEFORE), strict=True) if now != was]
    assert after.changed_since(BEFORE) == expected


def test_tables_of_different_jobs_are_not_compared():
    with pytest.raises(ValueError, match="same request"):
        table("b").changed_since(BEFORE)
