"""What README and the documents claim of Heddle, each claim with the command that measures it and its bar.

A claim is one row. `figure` reads what the command printed as JSON. A number in README without a row here fails
tests/benchmarks/test_evidence.py.
"""

from collections.abc import Callable, Iterable
from statistics import median
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command of `heddle` that prints JSON, and how long it takes on two cores."""

    arguments: tuple[str, ...]
    minutes: float

    @property
    def line(self) -> str:
        return " ".join(("heddle", *self.arguments))


class Claim(NamedTuple):
    """One claim. Exactly one of `at_least` and `at_most` is a number, in the unit of `figure`."""

    text: str
    command: str
    """A key of `COMMANDS`."""
    figure: Callable[[Any], float]
    """Read the figure from the command's JSON; raises LookupError, StopIteration or TypeError where it is missing."""
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    quoted: str = ""
    """The figure as README has it; empty where README does not have it."""

    def holds(self, figure: float) -> bool:
        if self.at_least is not None:
            return figure >= self.at_least
        return self.at_most is not None and figure <= self.at_most

    @property
    def bar(self) -> str:
        if self.at_least is not None:
            return f"at least {self.shown(self.at_least)}"
        assert self.at_most is not None
        return f"at most {self.shown(self.at_most)}"

    def shown(self, figure: float) -> str:
        return f"{figure:,.4g}{self.unit}"


COMMANDS = {
    "demo": Command(("demo", "--json"), 3),
    "plan": Command(("bench", "plan", "--json"), 3),
    "bmwg": Command(("bench", "bmwg", "--json"), 1),
    "cabling": Command(("bench", "cabling", "--json"), 1),
    "southbound": Command(("bench", "southbound", "--json"), 1),
    "victim": Command(("bench", "victim", "--json"), 3),
    "submit": Command(("bench", "submit", "--json"), 1),
    "path-sets": Command(("bench", "path-sets", "--json"), 1),
    "spray": Command(("bench", "spray", "--json"), 3),
    "srv6": Command(("bench", "srv6", "--json"), 2),
}


def _method(found: Any, case: str, flows: int, method: str) -> Any:
    """Return the row of a method in a case of `heddle bench plan`."""
    rows = next(each["methods"] for each in found["cases"] if (each["case"], each["flows"]) == (case, flows))
    return next(row for row in rows if row["method"] == method)


def _fullest(case: str, flows: int, method: str) -> Callable[[Any], float]:
    return lambda found: float(_method(found, case, flows, method)["max_utilisation"])


def _permutations(found: Any, mode: str) -> Iterable[Any]:
    return (run for run in found["runs"] if (run["kind"], run["mode"]) == ("permutation", mode) and run["valid"])


def _slowest_flow(mode: str) -> Callable[[Any], float]:
    """Return what reads the median, over the seeds, of the slowest flow of a permutation, in percent of line rate."""
    return lambda found: 100 * median(run["worst_share_of_demand"] for run in _permutations(found, mode))


def _on_planned_links(found: Any) -> float:
    """Return the share of planned flows whose every packet was seen on the planned links alone, in percent."""
    runs = [run for run in found["runs"] if run["mode"] == "planned" and run["valid"]]
    exact: int = sum(run["flows_on_exact_links"] for run in runs)
    return 100 * exact / sum(len(run["flows"]) for run in runs)


def _scenes(found: Any) -> float:
    return float(sum(scene["verdict"] == "shown" for scene in found["scenes"]))


def _ring_512(balancer: str) -> Callable[[Any], float]:
    def figure(found: Any) -> float:
        wanted = ("all-reduce", 512, balancer)
        rows = found["collectives"]
        row = next(row for row in rows if (row["collective"], row["accelerators"], row["balancer"]) == wanted)
        return 100 * float(row["busbw_efficiency"])

    return figure


def _interference(balancer: str) -> Callable[[Any], float]:
    """Return what reads the largest factor by which a second ring delays a first one, over the shares of leaves."""
    return lambda found: max(
        float(row["interference_factor"]) for row in found["interference"] if row["balancer"] == balancer
    )


def _sets(method: str, of: Callable[[Iterable[float]], float]) -> Callable[[Any], float]:
    """Return what reads a method's fullest link over the bound, of the cases of `path-sets` that have it."""
    return lambda found: of(float(row[method]) for row in found if row[method])


def _sprayed(mode: str, of: Callable[[Iterable[float]], float]) -> Callable[[Any], float]:
    return lambda found: 100 * of(float(row["slowest"]) for row in found["modes"] if row["mode"] == mode)


def _resteered(key: str) -> Callable[[Any], float]:
    return lambda found: median(float(row[key]) for row in found["resteer"])


def _victim(mode: str, of: Callable[[Iterable[float]], float]) -> Callable[[Any], float]:
    return lambda found: 100 * of(float(row["worst"]) for row in found[mode] if row["valid"])


def _goals(found: Any) -> float:
    met: int = sum(goal["met"] for goal in found["goals"])
    return 100 * met / len(found["goals"])


def _causes_named(found: Any) -> float:
    """Return the causes of bad days without a lost hello that are named as planted, in percent of those planted."""
    days = [fabric["bad day"] for fabric in found.values()]
    named: int = sum(day["as_planted"] for day in days)
    planted: int = sum(day["planted"] for day in days)
    return 100 * named / planted


TWO_TIERS = "demand on the fullest link over its rate: 8,190 flows, two tiers"
LEAN = "110,584 flows, three tiers with few cores; no plan is below 2"
FAILED = "32,768 flows, 5 % of the links failed; no plan is below 1.25"

CLAIMS = (
    Claim(
        "slowest flow of a permutation, real packets in the lab, part of line rate: planned, median of the seeds",
        "demo", _slowest_flow("planned"), at_least=95, unit=" %", quoted="97 %",
    ),
    Claim("the same under ECMP", "demo", _slowest_flow("ecmp"), at_most=65, unit=" %", quoted="49 %"),
    Claim(
        "planned flows of the demo whose every packet was on the planned links",
        "demo", _on_planned_links, at_least=100, unit=" %",
    ),
    Claim("scenes of the demo that are shown: cut, hog, arrival, storm", "demo", _scenes, at_least=4),
    Claim(f"{TWO_TIERS}: planned", "plan", _fullest("2t permutation q1", 8_190, "heddle"), at_most=1, quoted="1"),
    Claim(f"{TWO_TIERS}: ECMP", "plan", _fullest("2t permutation q1", 8_190, "ECMP"), at_least=7, quoted="7"),
    Claim(f"{LEAN}: planned", "plan", _fullest("3t lean q4", 110_584, "heddle"), at_most=2, quoted="2"),
    Claim(f"{LEAN}: ECMP", "plan", _fullest("3t lean q4", 110_584, "ECMP"), at_least=9, quoted="9"),
    Claim(f"{FAILED}: planned", "plan", _fullest("2t q4, 5% failed", 32_768, "heddle"), at_most=1.25, quoted="1.25"),
    Claim(f"{FAILED}: ECMP", "plan", _fullest("2t q4, 5% failed", 32_768, "ECMP"), at_least=7, quoted="7"),
    Claim("goals of the planner that are met", "plan", _goals, at_least=100, unit=" %"),
    Claim(
        "a whole `heddle plan` of 131,072 flows with its JSON",
        "plan", lambda found: float(found["process"]["process_s"]), at_most=3, unit=" s",
    ),
    Claim(
        "the plan itself within that command, kernels compiled",
        "plan", lambda found: float(found["process"]["solve_ms"]), at_most=200, unit=" ms",
    ),
    Claim(
        "the largest resident memory of that command",
        "plan", lambda found: float(found["process"]["peak_rss_mb"]), at_most=400, unit=" MB",
    ),
    Claim(
        "ring all-reduce of 512 accelerators at random places: part of the line rate, planned",
        "bmwg", _ring_512("planned"), at_least=99, unit=" %",
    ),
    Claim("the same under ECMP", "bmwg", _ring_512("ECMP"), at_most=35, unit=" %"),
    Claim(
        "a ring of 32 beside a second one on 0 to 75 % of its leaves: time over that alone, planned, worst",
        "bmwg", _interference("planned"), at_most=1.01,
    ),
    Claim("the same under ECMP, worst", "bmwg", _interference("ECMP"), at_least=1.3),
    Claim(
        "planned path sets of 4 to 32 paths: fullest link over the bound, worst of 13 cases, cut cables among them",
        "path-sets", _sets("planned", max), at_most=1.02,
    ),
    Claim(
        "random path sets of 4 to 16 paths, the same, best of the cases",
        "path-sets", _sets("random", min), at_least=1.3,
    ),
    Claim(
        "path sets of 131,048 flows, 32 paths each: processor time of paths, lists and rates",
        "path-sets", lambda found: next(float(row["seconds"]) for row in found if row["paths"] == 32),
        at_most=1, unit=" s",
    ),
    Claim(
        "flows that spray over 4 planned paths in the lab: goodput of the slowest over its rate, worst of 3 seeds",
        "spray", _sprayed("planned 4", min), at_least=95, unit=" %",
    ),
    Claim("the same over 2 random paths, best of 3 seeds", "spray", _sprayed("random 2", max), at_most=70, unit=" %"),
    Claim(
        "20 cuts under full load, planned sets of 4: goodput of the lowest 200 ms over what is left and planned",
        "spray", lambda found: 100 * min(float(row["lowest"]) for row in found["cuts"]), at_least=80, unit=" %",
    ),
    Claim(
        "`SubmitJob` until a job runs with `steering: srv6`, median",
        "srv6", lambda found: float(found["start"]["srv6"]["median_ms"]), at_most=50, unit=" ms",
    ),
    Claim(
        "a cut with `steering: srv6`: new paths at hosts after the controller knows of it, median of 10",
        "srv6", _resteered("paths_after_known_ms"), at_most=100, unit=" ms",
    ),
    Claim(
        "a Linux router that forwards by an SRv6 uA SID: processor time over that by an IPv6 route",
        "srv6", lambda found: found["us_per_hop"]["SRv6 uA"] / found["us_per_hop"]["IPv6 route"], at_most=4,
    ),
    Claim(
        "wrong cables, a bad day of 550 faults on three fabrics: causes named as planted",
        "cabling", _causes_named, at_least=95, unit=" %",
    ),
    Claim(
        "a flow beside an incast of 7 in the lab: goodput in its worst second over alone, planned, worst of 3 runs",
        "victim", _victim("planned, PFC and DCQCN", min), at_least=90, unit=" %",
    ),
    Claim(
        "the same under ECMP with DCQCN, best of 3 runs",
        "victim", _victim("ECMP, PFC and DCQCN", max), at_most=90, unit=" %",
    ),
    Claim(
        "10,000 rules to one switch: rate over that of `ovs-ofctl --bundle add-flows`",
        "southbound", lambda found: float(found["rate_ratio_to_bundle"]), at_least=1,
    ),
    Claim(
        "`SubmitJob` until every switch has acknowledged, median",
        "submit", lambda found: float(found["SOURCE_PORT"]["median_ms"]), at_most=20, unit=" ms",
    ),
)  # fmt: skip
