"""The results of a campaign: a table by module, the survivors with their difference, and JSON."""

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.mutants.planting import Key, Mutant

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
OUTCOMES = ("killed", "timed out", "survived", "no tests", "equivalent")


def equivalents(path: Path = EQUIVALENT) -> dict[Key, str]:
    """Return the mutants that behave like the original, with the reason; raises ValueError for one without a reason."""
    found: dict[Key, str] = {}
    for entry in tomllib.loads(path.read_text()).get("mutant", []):
        if not entry["reason"].strip():
            raise ValueError(f"{path.name}: {entry['file']}: {entry['becomes']}: say why it behaves like the original")
        found[entry["file"], entry["scope"], entry["was"], entry["becomes"]] = entry["reason"]
    return found


def entry(mutant: Mutant, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mutant and its outcome for the JSON."""
    return {
        "file": mutant.file,
        "scope": mutant.scope,
        "line": mutant.first_line,
        "operator": mutant.operator,
        "was": mutant.was,
        "becomes": mutant.becomes,
        "outcome": outcome["outcome"],
        "seconds": outcome["seconds"],
        "diff": mutant.diff,
    }


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts by module and in sum, with the part that was detected of those that are not equivalent."""
    files = sorted({found["file"] for found in entries})
    rows: list[tuple[str, ...]] = [("module", "mutants", *OUTCOMES, "detected")]
    for file in (*files, ""):
        counts = Counter(found["outcome"] for found in entries if file in ("", found["file"]))
        real = sum(counts.values()) - counts["equivalent"]
        rate = f"{(counts['killed'] + counts['timed out']) / real:.1%}" if real else "-"
        rows.append((file or "all", str(sum(counts.values())), *(str(counts[name]) for name in OUTCOMES), rate))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in rows)
    return "\n".join(lines)


def write(folder: Path, seed: int, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write `results.json`, `table.txt` and `survivors.diff`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps({"seed": seed, "mutants": list(entries)}, indent=1))
    (folder / "table.txt").write_text(table(entries) + "\n")
    survived = [found for found in entries if found["outcome"] in ("survived", "no tests")]
    texts = (
        f"# {found['outcome']}: {found['file']}:{found['line']} ({found['operator']})\n{found['diff']}"
        for found in survived
    )
    (folder / "survivors.diff").write_text("\n\n".join(texts) + "\n")
