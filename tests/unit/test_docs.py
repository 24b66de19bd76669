"""The documentation names things that exist, and names every package."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("controller", "dataplane", "heddle/probing", "heddle/programs", "mininet_topos", "telemetry")
WHERE = ROOT / "docs" / "where-to-change.md"
# A path is quoted text with a slash or a known ending; `model.Plan` and `heddle run` are none.
QUOTED_PATH = re.compile(r"`([\w./-]*(?:/[\w.-]*|\.toml|Makefile))`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def named_paths() -> list[str]:
    return QUOTED_PATH.findall(WHERE.read_text())


def packages() -> list[str]:
    found = [path.parent for top in PRODUCT for path in (ROOT / top).rglob("__init__.py")]
    return sorted(str(path.relative_to(ROOT)) for path in found if "proto" not in path.parts)


def test_where_to_change_names_only_what_exists() -> None:
    paths = named_paths()
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_where_to_change_names_every_package() -> None:
    named = named_paths()
    assert [package for package in packages() if not any(path.startswith(f"{package}/") for path in named)] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


def test_every_decision_has_context_decision_and_consequences() -> None:
    headings = {
        page.name: re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
        for page in sorted((ROOT / "docs" / "adr").glob("*.md"))
    }
    assert {name: found for name, found in headings.items() if found != ["Context", "Decision", "Consequences"]} == {}
    assert [int(name[:4]) for name in headings] == list(range(1, len(headings) + 1))


def test_a_folder_of_more_than_eight_modules_has_a_readme_of_at_most_60_lines() -> None:
    modules: dict[Path, int] = {}
    for top in (*PRODUCT, "benchmarks", "heddle/foundation", "heddle/kernels", "tests"):
        for path in (ROOT / top).rglob("*.py"):
            modules[path.parent] = modules.get(path.parent, 0) + (path.name != "__init__.py")
    large = [folder for folder, count in sorted(modules.items()) if count > 8 and "proto" not in folder.parts]
    lengths = {
        str(folder.relative_to(ROOT)): len(readme.read_text().splitlines()) if readme.exists() else None
        for folder in large
        for readme in (folder / "README.md",)
    }
    assert {name: lines for name, lines in lengths.items() if lines is None or lines > 60} == {}
