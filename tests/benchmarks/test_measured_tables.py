"""Tables of measured values in the documents name the command, the date and the commit that they are of."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
VALUE = re.compile(r"[*<>~]*\d[\d,.]*( ?(%|x|ms|µs|s|MB|GB))?\b[\d\s,.()%*x/to-]*")
PROVENANCE = re.compile(r"(2026-\d\d-\d\d|\d+ November 2026)[^|]{0,60}commit\s[0-9a-f]{8}")
PAGES = sorted(path for path in DOCS.glob("*.md"))


def measured(table: str) -> bool:
    """Return whether most cells beside the first column are values, decimals among them."""
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    cells = [cell.strip() for row in rows for cell in row[1:] if cell.strip()]
    values = [cell for cell in cells if VALUE.fullmatch(cell)]
    decimals = [cell for cell in values if re.search(r"\d\.\d", cell)]
    return len(rows) > 1 and len(values) > 5 and 2 * len(values) >= len(cells) and len(decimals) > 1


def without_provenance(page: str) -> Iterator[str]:
    """Yield the last row of each measured table in whose section no date and commit stand."""
    for section in re.split(r"^(?=#{1,6} )", re.sub(r"```.*?```", "", page, flags=re.DOTALL), flags=re.MULTILINE):
        if not PROVENANCE.search(section):
            yield from (table.splitlines()[-1] for table in TABLE.findall(section + "\n") if measured(table))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_measured_tables_have_a_date_and_a_commit_in_their_section(path: Path) -> None:
    assert list(without_provenance(path.read_text())) == []


def test_a_table_without_them_is_found() -> None:
    table = "| a | b | c |\n| --- | --- | --- |\n| x | 1.5 ms | 2 |\n| y | 0.5 ms | 3 |\n| z | 2 | 4.25 (1) |\n"
    dated = "`heddle bench plan`, 2026-11-30, commit 0123abcd.\n"
    assert list(without_provenance("# Figures\n\n" + table)) == ["| z | 2 | 4.25 (1) |"]
    assert list(without_provenance("# Figures\n\n" + table + "\n" + dated)) == []
    assert len(list(without_provenance("# Figures\n\n" + table + "\n# More\n\n" + dated))) == 1
