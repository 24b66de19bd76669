"""Read YAML text as plain values: dicts, lists, texts, numbers, booleans, None.

Events of PyYAML's parser are read instead of its loader's values. So a duplicate key is refused with its path,
nesting and aliases are limited while reading, no tag constructs an object, and reading is four times as fast, which
matters for a file of a million NICs. Scalars follow YAML 1.1, as in PyYAML, but that `010` and `1:40`, which few people
read as 8 and 100, are texts: a number is refused where it is written so.
"""

import io
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from heddle.controller.config.text.complaint import one_line, place, refusal, shown
from heddle.controller.model.admission import Problem
from heddle.foundation.regular_file import read_regular

MAX_BYTES = 128 << 20
"""The largest fabric or jobs file: a million NICs and as many links fit. One of 200 MB took 90 s and 1.7 GB."""
MAX_SETTINGS_BYTES = 16 << 20
"""The largest file of any other kind: a config file, a network file. A gRPC message has the same limit."""
MAX_DEPTH = 64
MAX_ALIASED = 2_000_000
"""How many values aliases may add."""
MAX_NUMBER_LENGTH = 1_000
"""A plain scalar longer than this is text: reading numbers takes time that grows with the square of their length."""

_OF_ANOTHER_BASE = re.compile(r"[-+]?(?:0[0-9_]+|[0-9][0-9_]*(?::[0-9_.]+)+)\Z")
"""Numbers of base 8 and 60."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BINARY = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_NOT_TEXT = (
    "binary, not YAML text (traces such as Chakra's *.et are protobuf); docs/files.md shows what the file must hold"
)
UTF_16 = "UTF-16 text, as > of PowerShell writes it; save the file as UTF-8"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_RESOLVERS = yaml.SafeLoader.yaml_implicit_resolvers
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_MERGE_KEY = object()
_NO_KEY = object()


class Document(NamedTuple):
    """The contents of a file, and the name that its problems are reported under."""

    name: str
    value: dict[str, object]


class _DocumentError(Exception):
    """A problem of the text; `path` is the key that was being read."""

    def __init__(self, text: str, mark: Any = None) -> None:
        super().__init__(text)
        self.text = text
        self.mark = mark


def read_document(path: Path | str, max_bytes: int = MAX_BYTES) -> Document:
    """Read a YAML file that holds a mapping; raises InputError if it cannot be read or holds something else."""
    return parse_document(read_text(path, max_bytes), str(path))


def read_text(path: Path | str, max_bytes: int = MAX_BYTES) -> str:
    """Read a regular file of UTF-8 text; raises InputError."""
    name = str(path)
    try:
        content = read_regular(path, max_bytes)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise refusal(name, [Problem("", f"cannot be read: {why}")]) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if content.startswith(_UTF_16):
            raise refusal(name, [Problem("", UTF_16)]) from None
        if _BINARY.search(content[:4096]):
            raise refusal(name, [Problem("", _NOT_TEXT)]) from None
        line = content.count(b"\n", 0, error.start) + 1
        raise refusal(name, [Problem("", f"line {line}: not UTF-8 text; save the file as UTF-8")]) from None


def parse_document(text: str, name: str) -> Document:
    """Read YAML text that holds a mapping; raises InputError if it holds something else."""
    builder = _Builder()
    try:
        value = builder.read(text)
    except _DocumentError as fault:
        where = f" (line {fault.mark.line + 1}, column {fault.mark.column + 1})" if fault.mark else ""
        raise refusal(name, [Problem(builder.path(), fault.text + where)]) from None
    except yaml.YAMLError as error:
        raise refusal(name, [Problem("", _syntax_problem(error, text))]) from None
    except UnicodeEncodeError:
        raise refusal(name, [Problem("", "not text: it holds half of a surrogate pair")]) from None
    if value is None:
        raise refusal(name, [Problem("", "the file is empty; docs/files.md shows what belongs there")])
    if not isinstance(value, dict):
        space = "; it has no-break spaces, write common ones" if "\u00a0" in text else ""
        raise refusal(name, [Problem("", f"must be a mapping of keys to values, is {shown(value)}{space}")])
    return Document(name, value)


def _syntax_problem(error: yaml.YAMLError, text: str) -> str:
    """Return a YAML error in one line, with its line and column, and the remedy where the cause is a known habit."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        if mark and (habit := _habit(text, mark)):
            return where + habit
        why = ", ".join(part for part in (error.context, error.problem) if part)
        return f"{where}not YAML: {why}"
    return f"not YAML: {one_line(str(error).splitlines()[0] if str(error) else type(error).__name__)}"


def _habit(text: str, mark: Any) -> str:
    """Return what is wrong at a mark in the words of who wrote it; empty where nothing known is."""
    line = next(islice(io.StringIO(text), mark.line, None), "")
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab before the first word; YAML indents by spaces"
    if line[mark.column :].startswith(("@", "`", "%")):
        return f"a value cannot begin with {line[mark.column]}; put it in quotes"
    if line.lstrip().startswith(("//", "/*")):
        return "a comment begins with #"
    return ""


class _Frame:
    """A mapping or list that is being read."""

    __slots__ = ("anchor", "key", "merged", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Any = _NO_KEY
        self.merged: list[dict[str, object]] = []
        self.size = 1


class _Builder:
    """Builds the value of one document from its events."""

    def __init__(self) -> None:
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        self._result: Any = None

    def path(self) -> str:
        """Return the path of the key that is being read."""
        steps: list[object] = []
        for frame in self._stack:
            if isinstance(frame.value, list):
                steps.append(len(frame.value))
            elif frame.key is not _NO_KEY:
                steps.append("<<" if frame.key is _MERGE_KEY else frame.key)
        return place(steps)

    def read(self, text: str) -> object:
        """Return the value of the only document; None for an empty text."""
        documents = 0
        for event in _events(text):
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent:
                self._open({}, event)
            elif kind is yaml.SequenceStartEvent:
                self._open([], event)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close()
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise _DocumentError("a second document begins here; only one is read", event.start_mark)
        return self._result

    def _scalar(self, event: Any) -> None:
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.key is _NO_KEY and type(frame.value) is dict:
            self._name_key(frame, event)
            return
        value = self._scalar_value(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, 1)

    def _scalar_value(self, event: Any) -> object:
        text, tag = event.value, event.tag
        if tag is None or tag == "!":
            return _plain(text) if event.implicit[0] and tag is None else text
        try:
            return _tagged(tag, text)
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, yaml.YAMLError):
            raise _DocumentError(f"tag {shown(tag)} does not belong here; leave it out", event.start_mark) from None

    def _name_key(self, frame: _Frame, event: Any) -> None:
        if event.value == "<<" and event.implicit[0] and event.tag is None:
            frame.key = _MERGE_KEY
            return
        key = self._scalar_value(event)
        if not isinstance(key, str):
            raise _DocumentError(f"the key {one_line(event.value)} is not a text; put it in quotes", event.start_mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = (key, 1)
        frame.key = key
        if key in frame.value:
            raise _DocumentError("the same key twice; keep one of them", event.start_mark)

    def _open(self, value: Any, event: Any) -> None:
        if self._stack and self._stack[-1].key is _NO_KEY and type(self._stack[-1].value) is dict:
            raise _DocumentError("a key must be a text, not a list or mapping", event.start_mark)
        if event.tag is not None and event.tag not in ("!", _TAG + "map", _TAG + "seq"):
            raise _DocumentError(f"tag {shown(event.tag)} does not belong here; leave it out", event.start_mark)
        if len(self._stack) >= MAX_DEPTH:
            raise _DocumentError(f"nested more than {MAX_DEPTH} deep", event.start_mark)
        self._stack.append(_Frame(value, event.anchor))

    def _close(self) -> None:
        frame = self._stack.pop()
        for merged in frame.merged:
            for key, value in merged.items():
                frame.value.setdefault(key, value)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.value, frame.size)
        self._put(frame.value, frame.size)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _DocumentError(f"alias {shown('*' + event.anchor)} has no anchor before it", event.start_mark)
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise _DocumentError(f"aliases add more than {MAX_ALIASED:,} values; write them out", event.start_mark)
        if self._stack and self._stack[-1].key is _NO_KEY and type(self._stack[-1].value) is dict:
            raise _DocumentError("a key must be written out, not an alias", event.start_mark)
        self._put(value, size)

    def _put(self, value: object, size: int) -> None:
        if not self._stack:
            self._result = value
            return
        frame = self._stack[-1]
        frame.size += size
        if type(frame.value) is list:
            frame.value.append(value)
        elif frame.key is _MERGE_KEY:
            frame.merged += _mappings_to_merge(value)
            frame.key = _NO_KEY
        else:
            frame.value[frame.key] = value
            frame.key = _NO_KEY


def _mappings_to_merge(value: object) -> list[dict[str, object]]:
    values = value if isinstance(value, list) else [value]
    mappings = [one for one in values if isinstance(one, dict)]
    if len(mappings) < len(values):
        raise _DocumentError("<< merges a mapping, or a list of mappings")
    return mappings


def _events(text: str) -> Iterator[Any]:
    return iter(yaml.parse(text, Loader=_LOADER))


def is_of_another_base(text: str) -> bool:
    """Return whether YAML 1.1 takes a text for a number of base 8 or 60, if it is not quoted."""
    return bool(_OF_ANOTHER_BASE.match(text))


def _plain(text: str) -> object:
    """Return what an unquoted scalar means: a number, boolean, date, None, or the text itself."""
    if text.isdecimal() and text.isascii() and (text[0] != "0" or text == "0") and len(text) <= MAX_NUMBER_LENGTH:
        return int(text)  # as YAML does, in a tenth of the time: a plan of a million flows has 262,000 ranks
    return _resolved(text)


@lru_cache(maxsize=65536)
def _resolved(text: str) -> object:
    """Return what a scalar means by the rules of YAML 1.1."""
    if len(text) > MAX_NUMBER_LENGTH:
        return text
    for tag, pattern in _RESOLVERS.get(text[:1], ()):
        if pattern.match(text):
            if tag in (_TAG + "merge", _TAG + "value"):
                return text
            if tag in (_TAG + "int", _TAG + "float") and is_of_another_base(text):
                return text
            try:
                return _construct(tag, text)
            except (ValueError, OverflowError):
                return text
    return text


def _tagged(tag: str, text: str) -> object:
    """Return what a scalar with a standard tag means; raises KeyError where the tag is no standard one."""
    if tag not in {_TAG + kind for kind in ("str", "int", "float", "bool", "null")} or len(text) > MAX_NUMBER_LENGTH:
        if tag == _TAG + "str":
            return text
        raise KeyError(tag)
    return _construct(tag, text)


def _construct(tag: str, text: str) -> object:
    node = yaml.ScalarNode(tag, text)
    return yaml.constructor.SafeConstructor.yaml_constructors[tag](_CONSTRUCTOR, node)
