"""The documentation names things that exist, and names every package."""

import re
from pathlib import Path

import pytest

from tests.support.doc_names import Tree

ROOT = Path(__file__).parents[2]
PRODUCT = (
    "controller",
    "dataplane",
    "heddle/client",
    "heddle/library",
    "heddle/planners",
    "heddle/probing",
    "heddle/programs",
    "heddle/testing",
    "mininet_topos",
    "telemetry",
)
WHERE = ROOT / "docs" / "where-to-change.md"
# A path is quoted text with a slash or a known ending; `model.Plan` and `heddle run` are none.
QUOTED_PATH = re.compile(r"`([\w./-]*(?:/[\w.-]*|\.toml|Makefile))`")
SECTION = re.compile(r'([\w/-]+\.md)(?:\]\([^)]*\)|`)?, "([^"]+)"')
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CITED = re.compile(r"(?<![\w/.<{-])[a-z][\w-]*(?:/[\w-]+)+\.(?:py|md|proto)\b|(?<![\w/])README\.md")
GENERATED = {"docs/metrics.md"}  # from the code, by a test of its own
TOOLS = ("/warm.py", "_page.py", "rules/pipeline.py")
"""Modules that compile kernels or write a page, and end."""
FOREIGN = {
    # libraries and their types
    "Event.wait", "argon2.PasswordHasher", "asyncio.create_server", "getpass.getpass", "hashlib.scrypt", "np.int64",
    "basic_auth", "grh.flow_label", "va_list",
    # options of gRPC, files and variables of Linux and of SONiC's repository
    "grpc.max_allowed_incoming_connections", "grpc.max_connection_idle_ms", "grpc.resource_quota",
    "grpc.server_handshake_timeout_ms", "shmem_enabled", "docs/reference/yang", "src/sonic-yang-models", "tc_type",
    "yang-templates/sonic-types.yang.j2",
    # plugins of Slurm, keys of Kubernetes
    "fabric.topograph.run/tier-0", "topology/block", "topology/tree",
    # below the prefix of an installation; a value in a file
    ".venv/bin", "share/heddle", "share/heddle/systemd", "heddle.demo/1",
    # in the repository of others
    "data/topo.csv",
    # keys of files, of which a module has the first name
    "limits.endpoint_ports_percent", "limits.vpc_percent", "partner.key_file", "topology.links", "topology.nodes",
}  # fmt: skip
"""What documents quote of others."""
ADDED_BY_TUTORIAL = {"telemetry/agent/sources/json_file.py", "tests/unit/telemetry/agent/test_json_file.py"}


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


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(ROOT, without={str(Path(__file__).relative_to(ROOT))})


def test_documents_quote_only_what_exists_and_a_few_names_of_others(tree: Tree) -> None:
    unknown = {page: {*tree.unknown(page)} for page in tree.documents() if page not in GENERATED}
    assert len(unknown) > 100
    assert {
        page: names for page, found in unknown.items() if (names := sorted(found - FOREIGN - ADDED_BY_TUTORIAL))
    } == {}
    assert FOREIGN - set().union(*unknown.values()) == set()


def test_processes_names_every_module_that_runs_as_one(tree: Tree) -> None:
    runs = {path for path, text in tree.sources.items() if re.search(r'^if __name__ == "__main__"', text, re.MULTILINE)}
    modules = {path for path in runs if path.split("/")[0] not in {"tests", "benchmarks", "scripts"}}
    named = set(QUOTED_PATH.findall((ROOT / "docs" / "processes.md").read_text()))
    assert len(modules) > 10
    assert {path for path in modules - named if not path.endswith(TOOLS)} == set()


def test_a_name_of_a_file_is_defined_there(tree: Tree) -> None:
    assert {page: found for page in tree.documents() if (found := list(tree.misplaced(page)))} == {}


def test_sources_cite_only_files_that_exist(tree: Tree) -> None:
    generated = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
    product = {p: text for p, text in tree.sources.items() if not p.startswith("tests/") and not p.endswith(generated)}
    cited = [(path, name) for path, text in product.items() for name in CITED.findall(text)]
    assert len(cited) > 30
    assert [each for each in cited if not _leads_somewhere(tree, *each)] == []


def _leads_somewhere(tree: Tree, path: str, name: str) -> bool:
    """Return whether the tree has what a file cites; a page without a folder is one beside the file."""
    return tree.has_path(name, str(Path(path).parent)) if "/" in name else (ROOT / path).with_name(name).exists()


def test_sections_that_are_cited_exist(tree: Tree) -> None:
    """A citation reads `page.md, "Title"`; the title is a heading, or begins a paragraph in bold type."""
    texts = {**tree.sources, **{page: tree.text(page) for page in tree.documents()}}
    found = [(path, *cited) for path, text in texts.items() if ".md" in text for cited in SECTION.findall(text)]
    assert len(found) > 3
    pages = {name: "".join(map(tree.text, tree.endings[name])) for _, name, _ in found}
    missing = [f"{path}: {name}, {title}" for path, name, title in found if not _has_section(pages[name], title)]
    assert missing == []


def _has_section(text: str, title: str) -> bool:
    return re.search(rf"^(#+ |- \*\*|\*\*){re.escape(title)}\b", text, re.MULTILINE) is not None


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in headings}


def test_links_between_documents_lead_somewhere(tree: Tree) -> None:
    broken = []
    for page in tree.documents():
        for link, anchor in LINK.findall(tree.text(page)):
            target = (ROOT / page).parent / link if link else ROOT / page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())):
                broken.append(f"{page}: {link}#{anchor}")
    assert broken == []


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
