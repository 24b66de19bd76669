"""`make bench`: run the benchmarks one after the other, print their tables and, with --json, one JSON object.

python -m benchmarks [--json] [NAME ...] [--only PART]
"""

import argparse
import importlib
import json
import sys
from collections.abc import Sequence

from benchmarks import NAMES


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all when left out")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output at the end")
    parser.add_argument("--only", action="append", metavar="PART", help="of dataplane: this part; may be given again")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    if options.only:
        if options.names != ["dataplane"]:
            parser.error("--only is for the parts of dataplane alone")
        from benchmarks.dataplane import PARTS

        if missing := sorted(set(options.only) - set(PARTS)):
            parser.error(f"no part {missing[0]!r}; there are {', '.join(PARTS)}")
    out = sys.stderr if options.json else sys.stdout
    found = {}
    for name in options.names or NAMES:
        print(f"\n== {name}", file=out, flush=True)
        parts = [options.only] if options.only else []
        found[name] = importlib.import_module(f"benchmarks.{name}").run(out, *parts)
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
