"""Measure the claims of README and the headline figures again (`make evidence`); docs/evidence.md.

python -m heddle.benchmarks.evidence [--only COMMAND ...] [-o FOLDER]
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from heddle.benchmarks.evidence.claims import CLAIMS, COMMANDS
from heddle.benchmarks.evidence.page import Origin, machine, page
from heddle.benchmarks.evidence.run import run_all

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m heddle.benchmarks.evidence", description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(COMMANDS), help="claims of this command; repeatable")
    parser.add_argument("-o", "--output", type=Path, default=Path("heddle-evidence"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output {options.output}: {error.strerror}")
    claims = [claim for claim in CLAIMS if claim.command in (options.only or COMMANDS)]
    verdicts, outcomes = run_all(claims, lambda line: print(line, file=sys.stderr, flush=True))
    origin = Origin(time.strftime("%Y-%m-%d", time.gmtime()), _commit(), machine())
    text = page(verdicts, outcomes, origin)
    (options.output / "evidence.md").write_text(text)
    found = {
        "origin": origin._asdict(),
        "claims": [
            {"claim": each.claim.text, "bar": each.claim.bar, "figure": each.figure, "verdict": each.word}
            for each in verdicts
        ],
    }
    (options.output / "evidence.json").write_text(json.dumps(found, indent=1) + "\n")
    print(text)
    return 0 if all(each.word == "holds" for each in verdicts) else 1


def _commit() -> str:
    """Return the short name of the checkout's commit, marked where files differ from it."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
