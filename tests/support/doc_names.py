"""Find what a document quotes and the tree lacks: paths, modules, classes, functions, attributes.

`rules.diff` is a definition in a module or package `rules`, `Lab.nics` an attribute of a class `Lab` or of its bases;
`_serve` and `scan(now)` are defined in some file, and a word such as `flow_id` or `FlowTable` occurs in some source.
A leading `heddle` is the import package, and no folder. What has a word in capitals in it is a placeholder.
"""

import ast
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

SKIPPED = {"build", "dist", "node_modules", "__pycache__"}
SOURCES = {"", ".py", ".proto", ".c", ".h", ".js", ".html", ".css", ".yaml", ".yml", ".toml", ".service", ".conf"}
PATH = re.compile(
    r"[\w.-]+(?:/[\w.-]*)+|[\w.-]+\.(?:py|md|c|o|h|proto|ya?ml|toml|jsonl?|js|css|html|svg|txt|csv|service|conf|acl|sock)"
)
DOTTED = re.compile(r"(?:[A-Za-z_]\w*\.)+\w+")
PLACED = re.compile(r"`(\w+)`\s+(?:of|in)\s+`([\w./-]+\.py)`")
HOLDS = re.compile(r"`([\w./-]+\.py)`\s+\(`(\w+)`")
CALL = re.compile(r"([A-Za-z_][\w.]*)\((?!s\))")
WORD = re.compile(r"_\w+|[a-z]\w*_\w+|(?:[A-Z][a-z0-9]+){2,}")
PLACEHOLDER = re.compile(r"(?:^|[/_])[A-Z]{2,}\b|^\d")
IDENTIFIER = re.compile(r"[A-Za-z_]\w+", re.ASCII)
SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
DEFINED = re.compile(r"\n *(?:(?:async )?(?:def|class) (\w+)|(?:self\.)?(\w+)(?:: | = ))")
OF_PROTOBUF = re.compile(r"\b(?:message|enum|service|rpc) (\w+)|\b(\w+) = \d")
CLASS = re.compile(r"\n *(?:class|message|service|enum) (\w+)")


class Tree:
    """The files of a source tree, and what they define."""

    def __init__(self, root: Path, without: frozenset[str] | set[str] = frozenset()) -> None:
        """Read the names of files; files `without` are no sources."""
        self._root, self._without = root, without
        self.paths: set[str] = set()
        for folder, folders, files in os.walk(root):
            shown = [each for each in folders if each not in SKIPPED and not each.endswith(".egg-info")]
            folders[:] = [each for each in shown if not each.startswith(".") or each == ".ci"]
            inside = os.path.relpath(folder, root)
            self.paths.update(os.path.normpath(f"{inside}/{each}") for each in (*files, *folders))

    def documents(self) -> list[str]:
        """Return the README of every folder, and the pages of docs."""
        pages = sorted(path for path in self.paths if path.endswith(".md"))
        return [path for path in pages if path.startswith("docs/") or path.endswith("README.md")]

    def text(self, path: str) -> str:
        """Return the text of a file."""
        return (self._root / path).read_text()

    def unknown(self, document: str) -> Iterator[str]:
        """Yield what a document quotes and the tree lacks."""
        folder = os.path.dirname(document)
        for span in dict.fromkeys(SPAN.findall(FENCE.sub("", self.text(document)))):
            if PATH.fullmatch(span):
                if not PLACEHOLDER.search(span) and not self.has_path(span, folder):
                    yield span
            elif names := DOTTED.fullmatch(span) or WORD.fullmatch(span):
                if not PLACEHOLDER.search(span) and not self._has_name(names[0]):
                    yield span
            else:
                yield from (name for name in CALL.findall(span) if not self._has_name(name))

    def misplaced(self, document: str) -> Iterator[str]:
        """Yield each "`name` of `file.py`" and "`file.py` (`name`" whose file does not define that name."""
        text = self.text(document)
        for name, path in [*PLACED.findall(text), *((name, path) for path, name in HOLDS.findall(text))]:
            if not any(name in self._defined.get(each, ()) for each in self.endings[path]):
                yield f"{name} in {path}"

    def has_path(self, path: str, folder: str) -> bool:
        """Return whether a path leads from the root, from a folder above its document, or ends one below that folder.

        A file name without a folder is that of any file, or of one that a program writes.
        """
        path = path.rstrip("/")
        if not os.path.dirname(path):
            return path in self.endings or any(path in text for text in self.sources.values())
        above = [folder]
        while above[-1]:
            above.append(os.path.dirname(above[-1]))
        wanted = [os.path.normpath(os.path.join(each, path)) for each in above] + [path.removeprefix("heddle/")]
        if not self.paths.isdisjoint((*wanted, *(f"{each}.py" for each in wanted))):
            return True
        is_below = folder != "docs" and any(each.startswith(folder) for each in self.endings[path])
        return is_below or self._has_name(path.replace("/", "."))

    def _has_name(self, name: str) -> bool:
        """Return whether a module has that name, or it is defined where it says; of a word, whether it occurs."""
        *owners, last = name.removeprefix("heddle.").split(".")
        if not owners:
            return last in self._defined_anywhere if last.startswith("_") else last.lower() in self._words
        if ".".join((*owners, last)) in self._modules:
            return True
        if files := self._modules.get(".".join(owners)):
            return any(last in self._defined[path] for path in files)
        if owners[-1] in self._classes:
            return last in self._attributes(owners[-1])
        return owners[0] in self._words and last in self._defined_anywhere  # of an object, such as `loop.state`

    @cached_property
    def endings(self) -> dict[str, list[str]]:
        """The paths that end with each sequence of names."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.paths:
            parts = path.split("/")
            for start in range(len(parts)):
                found["/".join(parts[start:])].append(path)
        return found

    @cached_property
    def _modules(self) -> dict[str, list[str]]:
        """The files of each module or package, by each ending of its dotted name; of tests by whole names."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.sources:
            parts = path.removesuffix(".py").split("/")
            for end in range(1, len(parts) + 1):
                for start in range(1 if parts[0] == "tests" else end):
                    found[".".join(parts[start:end])].append(path)
        return found

    @cached_property
    def sources(self) -> dict[str, str]:
        """The text of each source file; documents are none."""
        files = [path for path in sorted(self.paths) if os.path.splitext(path)[1] in SOURCES and "docs/" not in path]
        there = [path for path in files if path not in self._without and (self._root / path).is_file()]
        return {path: (self._root / path).read_text(errors="replace") for path in there}

    @cached_property
    def _words(self) -> set[str]:
        """Each word of a source, and the names of files, in small letters."""
        words = {os.path.splitext(os.path.basename(path))[0] for path in self.paths}
        words.update(*map(IDENTIFIER.findall, self.sources.values()))
        return {word.lower() for word in words}

    @cached_property
    def _defined(self) -> dict[str, set[str]]:
        """What the lines of each file define: functions, classes, variables, attributes."""
        return {path: self._definitions(path, text) for path, text in self.sources.items()}

    def _definitions(self, path: str, text: str) -> set[str]:
        if path.endswith(".proto"):
            return {name or field for name, field in OF_PROTOBUF.findall(text)}
        return {function or variable for function, variable in DEFINED.findall(f"\n{text}")}

    @cached_property
    def _defined_anywhere(self) -> set[str]:
        return set().union(*self._defined.values())

    @cached_property
    def _classes(self) -> dict[str, list[str]]:
        """The files that have a class of each name."""
        found: dict[str, list[str]] = defaultdict(list)
        for path, text in self.sources.items():
            for name in CLASS.findall(f"\n{text}"):
                found[name].append(path)
        return found

    def _attributes(self, name: str) -> set[str]:
        """Return the attributes of the classes of a name, and of their bases."""
        found: set[str] = set()
        for path in self._classes.get(name, ()):
            if not path.endswith(".py"):
                found |= self._defined[path]
                continue
            for node in ast.walk(ast.parse(self.sources[path])):
                if isinstance(node, ast.ClassDef) and node.name == name:
                    found |= self._definitions(path, ast.unparse(node))
                    bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id != name]
                    found.update(*map(self._attributes, bases))
        return found
