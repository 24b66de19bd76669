"""Check any plan against its files: python -m heddle.testing.plans.check_plan FABRIC JOBS PLAN.json

PLAN.json is what `heddle plan --json` wrote. Prints what is wrong, a line each, and ends with 1; or the figures it
found itself, and ends with 0; or a line that names a file that cannot be read, and ends with 2. Slow and simple: a plan
of 8,000 flows takes seconds, one of 131,000 about a minute.
"""

import argparse
import json
import sys
from pathlib import Path

import yaml

from heddle.testing.plans.contract_loads import bounds
from heddle.testing.plans.contract_network import Network
from heddle.testing.plans.plan_checker import check, from_json


def main(fabric_path: str, jobs_path: str, plan_path: str) -> int:
    """Check the plan of three files, print the result, and return the exit status."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read = []
    for path in (fabric_path, jobs_path, plan_path):
        try:
            text = Path(path).read_text()
            read.append(from_json(json.loads(text)) if path == plan_path else yaml.load(text, loader))
        except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError) as error:
            why = (getattr(error, "strerror", None) or str(error)).split("\n")[0]
            print(f"check_plan: {path}: cannot be read: {why}; name a fabric, a jobs and a plan file", file=sys.stderr)
            return 2
    fabric, jobs, plan = read
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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m heddle.testing.plans.check_plan", description=__doc__)
    for name, words in (("FABRIC", "the fabric file"), ("JOBS", "the jobs file"), ("PLAN", "the JSON of the plan")):
        parser.add_argument(name, help=words)
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    sys.exit(main(given.FABRIC, given.JOBS, given.PLAN))
