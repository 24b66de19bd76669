"""Check any plan against its files: python -m tests.oracles.check_plan FABRIC JOBS PLAN.json

PLAN.json is what `heddle plan --json` wrote. Prints what is wrong, a line each, and ends with 1; or the figures it
found itself, and ends with 0. Slow and simple: a plan of 8,000 flows takes seconds, one of 131,000 about a minute.
"""

import json
import sys
from pathlib import Path

import yaml

from tests.oracles.contract_loads import bounds
from tests.oracles.contract_network import Network
from tests.oracles.plan_checker import check

SIXTY_FOUR_BITS = ("rate_bps", "demand_bps", "slot_ns")
"""What protobuf's JSON mapping writes as text."""


def from_json(plan: dict) -> dict:
    """Turn the texts of 64-bit fields back into numbers."""
    for job in plan["jobs"]:
        for flow in job["flows"]:
            for values in (flow, flow.get("window") or {}):
                values.update({key: int(values[key]) for key in SIXTY_FOUR_BITS if key in values})
    return plan


def main(fabric_path: str, jobs_path: str, plan_path: str) -> int:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    fabric, jobs = (yaml.load(Path(path).read_text(), loader) for path in (fabric_path, jobs_path))
    plan = from_json(json.loads(Path(plan_path).read_text()))
    found = check(fabric, jobs, plan)
    for line in found[:50]:
        print(line)
    if found:
        print(f"{len(found)} violation(s)")
        return 1
    flows = [{**flow, "job": job["job_id"]} for job in plan["jobs"] for flow in job["flows"]]
    bound = float(bounds(Network(fabric), flows))
    worst = max((job["certificate"]["max_link_utilisation"] for job in plan["jobs"]), default=0.0)
    print(f"sound: {len(flows)} flows, max link utilisation {worst:.4f}, cuts and pigeonholes prove {bound:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
