"""Measure the growth of planning time with the number of flows: permutations in two tiers, with the feasible peers."""

from collections.abc import Callable, Iterable
from typing import Any

from heddle.benchmarks.planning.measure import Request, measured
from heddle.benchmarks.planning.methods import ANNEALING, FIRST_FIT, GREEDY, NETWORKX, OURS

SIZES = {
    1_024: "equal-q1",
    8_192: "equal-q1",
    32_768: "equal-q1",
    131_072: "equal-q8",
    262_144: "equal-q8",
    524_288: "equal-q8",
    1_048_576: "equal-q8",
}
"""The family of cases by number of flows: one queue pair per host, or eight to limit the number of hosts."""
MAX_FLOWS = {OURS: 1 << 20, FIRST_FIT: 1 << 20, GREEDY: 1 << 20, ANNEALING: 1 << 20, NETWORKX: 1 << 13}
QUICK_MAX_FLOWS = {**MAX_FLOWS, NETWORKX: 1 << 10}
FROM, TO = 8_192, 131_072
"""The sizes between which the growth of the time per flow is reported."""


def sizes_to(limit: int) -> list[int]:
    """Return the sizes up to about `limit` flows, and always the smallest."""
    return [size for size in SIZES if size <= max(limit * 1.05, min(SIZES))]


def growth(sizes: Iterable[int], seed: int, report: Callable[[str], None], *, quick: bool) -> dict[str, Any]:
    """Measure every size; return the points, and the ratio of the times per flow at 131,000 and 8,000 flows."""
    points: list[dict[str, Any]] = []
    for size in sizes:
        report(f"growth: {size:,} flows")
        feasible = QUICK_MAX_FLOWS if quick else MAX_FLOWS
        methods = tuple(name for name, limit in feasible.items() if size <= limit)
        request = Request(family=SIZES[size], flows=size, methods=methods, seed=seed, enough_s=0.2 if quick else 2.0)
        case, *rows = measured(request)
        points += [
            {
                "flows": case["flows"],
                "size": size,
                "method": row["method"],
                "paths_s": row["paths_s"],
                "solve_s": row["solve_s"],
                "ns_per_flow": (row["solve_s"] or row["paths_s"]) / case["flows"] * 1e9,
                "ratio": row["ratio"],
                "memory_mb": row["memory_mb"],
            }
            for row in rows
            if "missing" not in row
        ]
    ours = {point["size"]: point["ns_per_flow"] for point in points if point["method"] == OURS}
    times = ours[TO] / ours[FROM] if FROM in ours and TO in ours else None
    return {"points": points, "time_per_flow_131k_to_8k": times}
