"""Draw mutants by a seed, run the tests that cover each, and print what survived (`make mutants`).

    python -m tests.support.mutants                          1,000 mutants of the files below
    python -m tests.support.mutants --count 200 --seed 7
    python -m tests.support.mutants --all --files FILE...    every mutant of these files
    python -m tests.support.mutants --again RESULTS.json     the survivors of an earlier run

Nothing is changed in the working tree: each worker has a copy. The exit status is 1 if a mutant of `MUST_DIE` survives.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.mutants import campaign, results
from tests.support.mutants.choosing import CoverageMap
from tests.support.mutants.planting import Mutant, draw, sources

ROOT = Path(__file__).parents[3]
MUST_DIE = ("controller/runtime/journal/gate.py", "dataplane/control/pair/ownership.py", "controller/rules/order.py")
"""Files in which every mutant is detected or known as equivalent: what acknowledges, who serves, what is sent when."""
FILES = (
    "controller/brain/**/*.py",
    "controller/runtime/journal/*.py",
    "dataplane/control/pair/*.py",
    "controller/rules/**/*.py",
    "controller/southbound/codec/*.py",
)
TESTS = ("tests/unit", "tests/property")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the workers and removes their copies
    equivalent = results.equivalents()
    again = json.loads(options.again.read_text())["mutants"] if options.again else []
    again = [m for m in again if m["outcome"] in ("survived", "no tests")]
    survivors = {(m["file"], m["scope"], m["was"], m["becomes"]) for m in again}
    kinds = {(m["file"], m["scope"], m["operator"]) for m in again} if options.again else None
    patterns = sorted({m["file"] for m in again}) if options.again else options.files
    drawn = draw(sources(ROOT, patterns), None if options.all or options.again else options.count, options.seed, kinds)
    mutants = [mutant for mutant in drawn if not options.again or mutant.key in survivors]
    entries = json.loads(options.resume.read_text())["mutants"] if options.resume else []
    tried = {(m["file"], m["scope"], m["was"], m["becomes"]) for m in entries}
    mutants = [mutant for mutant in mutants if mutant.key not in tried]
    entries += [results.entry(m, {"outcome": "equivalent", "seconds": 0.0}) for m in mutants if m.key in equivalent]
    mutants = [mutant for mutant in mutants if mutant.key not in equivalent]
    with tempfile.TemporaryDirectory(prefix="heddle-mutants-") as place:
        _try(mutants, Path(place), patterns, options, entries)
    results.write(options.out, options.seed, entries)
    print(results.table(entries))
    print(f"survivors with their difference: {options.out / 'survivors.diff'}")
    return any(e["file"] in MUST_DIE and e["outcome"] in ("survived", "no tests") for e in entries)


def _try(
    mutants: Sequence[Mutant],
    place: Path,
    files: Sequence[str],
    options: argparse.Namespace,
    entries: list[dict[str, Any]],
) -> None:
    folders = [campaign.copy_tree(ROOT, place / f"tree-{number}") for number in range(options.jobs)]
    covered = options.map or place / "map.json"
    if not covered.exists():
        campaign.write_map(folders[0], files, options.tests, covered)

    def observe(mutant: Mutant, outcome: dict[str, Any]) -> None:
        entries.append(results.entry(mutant, outcome))
        results.write(options.out, options.seed, entries)
        sign = {"killed": ".", "timed out": "t"}.get(outcome["outcome"], "S")
        print(sign, end="", file=sys.stderr, flush=True)

    run = campaign.Campaign(mutants, CoverageMap(ROOT, covered), options.budget_s)
    entries += [results.entry(mutants[number], outcome) for number, outcome in run.outcomes.items()]
    run.run(folders, observe)
    print(file=sys.stderr)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=1000, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="every mutant rather than some")
    parser.add_argument("--files", nargs="+", metavar="PATTERN", default=list(FILES), help="the files that are mutated")
    parser.add_argument("--again", type=Path, metavar="RESULTS", help="the survivors of an earlier results.json")
    parser.add_argument("--resume", type=Path, metavar="RESULTS", help="go on after a results.json that was broken off")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time, each in a copy of the tree")
    parser.add_argument("--budget-s", type=float, default=60.0, help="processor seconds of tests for a mutant")
    parser.add_argument("--tests", nargs="+", default=list(TESTS), help="the tests that are chosen from")
    parser.add_argument("--map", type=Path, help="a map of coverage: read if it exists, else written")
    parser.add_argument("--out", type=Path, default=ROOT / "heddle-report-mutants", help="folder of the results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
