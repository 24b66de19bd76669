"""Find every place where a fault can be planted, and draw some of them by a seed."""

import difflib
import random
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from tests.support.mutants.operators import changes_of, is_left_alone

Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A source file with one fault."""

    file: str
    """Its path from the root of the repository."""
    scope: str
    """The class and function that hold the fault: `Gate.passes`; empty in the module's body."""
    first_line: int
    last_line: int
    """The lines of the statement that holds the fault."""
    operator: str
    text: str = field(repr=False)
    was: str
    """The changed lines as they are in the file, without indentation."""
    becomes: str
    diff: str = field(repr=False)

    @property
    def key(self) -> Key:
        """What a mutant is recognised by after lines moved."""
        return self.file, self.scope, self.was, self.becomes


@dataclass(frozen=True, slots=True)
class _Place:
    """A node and what replaces it."""

    old: cst.CSTNode
    new: cst.CSTNode
    operator: str
    scope: tuple[str, ...]
    first_line: int
    last_line: int
    statement: cst.SimpleStatementLine | None
    """The simple statement that holds the node, if one does."""


class _Inside(NamedTuple):
    """What holds a node."""

    scope: tuple[str, ...] = ()
    lines: tuple[int, int] | None = None
    """Of the statement, or of the expression in the head of a compound one."""
    statement: cst.SimpleStatementLine | None = None


class Source:
    """A parsed source file and the places in it."""

    def __init__(self, root: Path, file: str) -> None:
        self.file = file
        self.text = (root / file).read_text()
        wrapper = MetadataWrapper(cst.parse_module(self.text), unsafe_skip_copy=True)
        self._module = wrapper.module
        self._positions = wrapper.resolve(PositionProvider)
        self.places = tuple(self._walk(self._module, None, _Inside()))

    def mutant(self, number: int) -> Mutant | None:
        """Return the file with a fault at one place; None if that is no program, or no change."""
        place = self.places[number]
        text = self._replaced(place)
        try:
            compile(text, self.file, "exec")
        except SyntaxError:
            return None
        if text == self.text:
            return None
        diff = list(
            difflib.unified_diff(self.text.splitlines(), text.splitlines(), self.file, self.file, "", "", 1, "")
        )
        return Mutant(
            file=self.file,
            scope=".".join(place.scope),
            first_line=place.first_line,
            last_line=place.last_line,
            operator=place.operator,
            text=text,
            was=_changed(diff, "-"),
            becomes=_changed(diff, "+"),
            diff="\n".join(diff),
        )

    def _replaced(self, place: _Place) -> str:
        """Return the text with a place replaced: of a simple statement alone, which takes a fiftieth of the time."""
        if place.statement is None:
            replaced = self._module.deep_replace(place.old, place.new)
            return replaced.code if isinstance(replaced, cst.Module) else self.text
        bare = {"leading_lines": [], "trailing_whitespace": cst.TrailingWhitespace()}
        changed = place.statement.deep_replace(place.old, place.new)
        assert isinstance(changed, cst.SimpleStatementLine)
        position = self._positions[place.statement]
        lines = self.text.splitlines(keepends=True)
        start, end = position.start, position.end
        indent = lines[start.line - 1][: start.column]
        code = self._module.code_for_node(changed.with_changes(**bare)).rstrip("\n").replace("\n", "\n" + indent)
        before = "".join(lines[: start.line - 1]) + indent
        return before + code + lines[end.line - 1][end.column :] + "".join(lines[end.line :])

    def _walk(self, node: cst.CSTNode, parent: cst.CSTNode | None, inside: _Inside) -> Iterator[_Place]:
        if is_left_alone(node, parent):
            return
        position = self._positions.get(node)
        if (
            isinstance(node, cst.SimpleStatementLine | cst.BaseExpression)
            and inside.lines is None
            and position is not None
        ):
            inside = inside._replace(lines=(position.start.line, position.end.line))
        if isinstance(node, cst.SimpleStatementLine) and '"""' not in self._module.code_for_node(node):
            inside = inside._replace(
                statement=node
            )  # lines of a long string are not indented like those of a statement
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            inside = inside._replace(scope=(*inside.scope, node.name.value))
        for operator, new in changes_of(node):
            line = position.start.line if position is not None else 1
            first, last = inside.lines or (line, line)
            yield _Place(node, new, operator, inside.scope, first, last, inside.statement)
        if isinstance(node, cst.IndentedBlock | cst.Module):
            inside = inside._replace(lines=None)
        for child in node.children:
            yield from self._walk(child, node, inside)


def _changed(diff: Sequence[str], sign: str) -> str:
    return " ".join(line[1:].strip() for line in diff[2:] if line.startswith(sign))


def sources(root: Path, patterns: Sequence[str]) -> list[Source]:
    """Parse the files that patterns name, in the order of their paths."""
    files = {str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern)}
    return [Source(root, file) for file in sorted(files)]


def draw(
    found: Sequence[Source], count: int | None, seed: int, kinds: Container[tuple[str, str, str]] | None = None
) -> Iterator[Mutant]:
    """Yield so many mutants drawn by a seed, or all if `count` is None; each fault once.

    `kinds`, where given, are the only files, scopes and operators to draw from.
    """
    places = [
        (source, number)
        for source in found
        for number, place in enumerate(source.places)
        if kinds is None or (source.file, ".".join(place.scope), place.operator) in kinds
    ]
    random.Random(seed).shuffle(places)
    seen: set[tuple[str, str]] = set()
    for source, number in places:
        if count is not None and len(seen) >= count:
            return
        mutant = source.mutant(number)
        if mutant is not None and (mutant.file, mutant.text) not in seen:
            seen.add((mutant.file, mutant.text))
            yield mutant
