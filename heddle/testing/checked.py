"""Check a plan of the library by code that shares nothing with the planner."""

import json
from typing import TYPE_CHECKING

from heddle.testing.plans.plan_checker import check, from_json

if TYPE_CHECKING:
    from heddle.controller.model.fabric import Fabric
    from heddle.library.plan import Plan


def check_plan(plan: "Plan") -> list[str]:
    """Return what is wrong with a plan by the contract, a line each; an empty list for a sound plan.

    Paths, rates, ports, loads, the lower bound and freedom of deadlock are worked out again from docs/contract.md. It
    is slow and simple: 8,000 flows take seconds. Flows of a plan that were kept on failed links count as wrong.
    """
    from heddle.controller.config.write import fabric_document  # the clock and the switch need none of it

    fabric = {**fabric_document(plan.fabric), "failed": failed_names(plan.fabric)}
    document = from_json(json.loads(plan.to_json()))
    return check(fabric, {"jobs": document["requests"]}, document)


def failed_names(fabric: "Fabric") -> list[str]:
    """Return the names of what has failed, as in a fabric file."""
    down = fabric.failed
    nics = (fabric.nic_by_id[nic].up_link for nic in down.down_nics | down.quarantined_nics)
    return sorted((*down.down_cables, *down.down_switches, *nics))
