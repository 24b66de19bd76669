"""Run benchmarks one after the other (`make bench`): print their tables and, with --json, one JSON object.

python -m heddle.benchmarks [--json] [NAME ...] [--only PART] [--load-seconds SECONDS]
"""

import argparse
import importlib
import json
import math
import sys
from collections.abc import Sequence

from heddle.benchmarks import BENCHMARKS


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m heddle.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(BENCHMARKS)}; all when left out")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output at the end")
    parser.add_argument("--only", action="append", metavar="PART", help="dataplane only: measure this part; repeatable")
    parser.add_argument(
        "--load-seconds",
        type=float,
        metavar="SECONDS",
        help="dataplane only: duration of its part load",
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    for option in ("only", "load_seconds"):
        if getattr(options, option) is not None and options.names != ["dataplane"]:
            parser.error(f"--{option.replace('_', '-')} is an option of dataplane only")
    if options.load_seconds is not None and not 0 < options.load_seconds < math.inf:
        parser.error(f"--load-seconds: {options.load_seconds:g} is not a positive number of seconds")
    if options.only:
        from heddle.benchmarks.gateway.dataplane import PARTS

        if missing := sorted(set(options.only) - set(PARTS)):
            parser.error(f"no part {missing[0]!r}; there are {', '.join(PARTS)}")
    out = sys.stderr if options.json else sys.stdout
    found = {}
    for name in options.names or BENCHMARKS:
        print(f"\n== {name}", file=out, flush=True)
        found[name] = importlib.import_module(BENCHMARKS[name].module).run(out, **_arguments(options))
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        print()
    return 0


def _arguments(options: argparse.Namespace) -> dict[str, object]:
    """Return the options that one benchmark alone takes, as keyword arguments of its `run`."""
    given = {"parts": options.only, "load_seconds": options.load_seconds}
    return {name: value for name, value in given.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
