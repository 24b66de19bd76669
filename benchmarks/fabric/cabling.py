"""Planted faults of cabling: how many causes are named as planted, how many in all, and how long it takes.

Every case is diagnosed by the function that `heddle check cabling` and the controller call. Figures are sums over
`SEEDS` seeds; the time is the longest of them, in processor seconds: nothing runs beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from time import process_time
from typing import TextIO

from heddle.benchmarks.planning.cases import fabric_of
from heddle.controller.cabling.diagnosis import diagnose
from heddle.controller.model.fabric import Fabric
from tests.support.fabrics.planted_cabling import BAD_DAY, PlantedCabling

SEEDS = 5


@dataclass(frozen=True, kw_only=True)
class Case:
    title: str
    counts: Mapping[str, int]
    lost: float = 0.0
    silent_switch: bool = False


FABRICS = {
    "64 x 128, hosts": {"kind": "spine_leaf", "spines": 64, "leaves": 128, "hosts_per_leaf": 64},
    "k = 32, three tiers": {
        "kind": "clos3", "spines": 256, "leaves": 16, "hosts_per_leaf": 16, "pods": 32, "aggs_per_pod": 16,
    },
    "rails, 64 x 128": {
        "kind": "rail_optimised", "spines": 64, "leaves": 128, "hosts_per_leaf": 64, "nics_per_host": 8,
    },
}  # fmt: skip
CASES = (
    Case(title="sound", counts={}),
    Case(title="sound, 30 % of LLDP lost, a silent switch", counts={}, lost=0.3, silent_switch=True),
    Case(title="50 exchanges on a switch", counts={"exchanged": 50}),
    Case(title="400 exchanges on a switch", counts={"exchanged": 400}),
    Case(title="50 exchanges across switches", counts={"exchanged far": 50}),
    Case(title="60 missing, 20 moved", counts={"missing": 60, "moved": 20}),
    Case(title="10 shifted", counts={"shifted": 10}),
    Case(title="10 reversed, 10 in pairs, 10 blocks", counts={"reversed": 10, "pairs": 10, "blocks": 10}),
    Case(title="3 pairs of switches", counts={"nodes": 3}),
    Case(title="bad day", counts=BAD_DAY),
    Case(title="bad day, 5 % of LLDP lost", counts=BAD_DAY, lost=0.05),
    Case(title="bad day, 30 % of LLDP lost", counts=BAD_DAY, lost=0.3),
)


def run(out: TextIO) -> dict[str, object]:
    found: dict[str, object] = {}
    heads = ("planted", "as planted", "causes", "wrong", "missing", "unknown", "worst s")
    for name, sizes in FABRICS.items():
        fabric = fabric_of(**sizes)
        print(f"{name}: {len(fabric.cables) + len(fabric.nics):,} cables", file=out)
        print(f"  {'':44}" + "".join(f"{head:>11}" for head in heads), file=out)
        rows = found[name] = {}
        for case in CASES:
            row = rows[case.title] = measured(fabric, case)
            cells = "".join(f"{value:11,.2f}" if isinstance(value, float) else f"{value:11,}" for value in row.values())
            print(f"  {case.title:44}{cells}", file=out, flush=True)
    return found


def measured(fabric: Fabric, case: Case) -> dict[str, float | int]:
    """Return the sums over the seeds, and the longest time."""
    row: dict[str, float | int] = dict.fromkeys(("planted", "as_planted", "causes", "wrong", "missing", "unknown"), 0)
    worst_s = 0.0
    for seed in range(SEEDS):
        cabling = PlantedCabling(fabric, seed).plant(case.counts)
        silent = (fabric.switches[seed].id, fabric.leaves[seed])[seed % 2 :][:1] if case.silent_switch else ()
        heard, up = cabling.hearings(case.lost, silent)
        begun = process_time()
        diagnosis = diagnose(fabric, heard, up)
        worst_s = max(worst_s, process_time() - begun)
        row["planted"] += len(cabling.planted)
        row["as_planted"] += cabling.found(diagnosis)
        row["causes"] += len(diagnosis.causes)
        row["wrong"] += len(diagnosis.wrong)
        row["missing"] += len(diagnosis.missing)
        row["unknown"] += len(diagnosis.unknown)
    return {**row, "worst_s": worst_s}
