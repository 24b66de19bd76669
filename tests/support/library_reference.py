"""Generate docs/library-reference.md: `python -m tests.support.library_reference > docs/library-reference.md`."""

import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

MODULES = ("heddle", "heddle.client", "heddle.planners", "heddle.testing")
_HEAD = """# Reference of the library

Every public name, with its signature and docstring. This page is generated:
`python -m tests.support.library_reference > docs/library-reference.md`. [library.md](library.md) has examples,
[planners.md](planners.md) those of `heddle.planners`. Units are in names: bps is bit/s, ns nanoseconds; a utilisation
of 1.0 is a full link.
"""
_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
_SHORTEN = {"JobRequest": "Job", "heddle_pb2.": "pb.", "NoneType": "None"}
MAX_LINE = 110


def markdown() -> str:
    """Return the page."""
    parts = [_HEAD]
    for name in MODULES:
        module = importlib.import_module(name)
        parts.append(f"\n## {name}\n")
        kinds = {False: [], True: []}  # functions first: they are where a reader begins
        for each in module.__all__:
            kinds[inspect.isclass(getattr(module, each))].append(each)
        functions = [getattr(module, each) for each in kinds[False] if callable(getattr(module, each))]
        made = {_type(inspect.signature(function).return_annotation) for function in functions}
        for each in (*kinds[False], *kinds[True]):
            parts += _entry(f"{name}.{each}", getattr(module, each), made)
    return "\n".join(parts).rstrip() + "\n"


def _entry(name: str, found: Any, made: set[str]) -> Iterator[str]:
    yield f"\n### {name}\n"
    if inspect.isclass(found):
        yield from _class(name.rpartition(".")[2], found, made)
    elif callable(found):
        yield _fenced(_signature(name, found))
        yield _text(found)
    else:
        yield f"`{found!r}`"


def _class(name: str, found: type, made: set[str]) -> Iterator[str]:
    if issubclass(found, BaseException):
        yield _fenced(f"class {name}({found.__mro__[1].__name__})")
    elif issubclass(found, enum.Enum):
        yield _fenced("\n".join(f"{name}.{member.name}" for member in found))
    else:
        fields = [*_fields(found, has_maker=name in made)]
        yield _fenced("\n".join((f"class {name}", *(f"    {line}" for line in fields))))
    yield _text(found)
    rows = [*_members(name, found)]
    if rows:
        yield "\n| member | what it does |\n| --- | --- |\n" + "\n".join(rows)


def _fields(found: type, *, has_maker: bool) -> Iterator[str]:
    if dataclasses.is_dataclass(found):
        for field in dataclasses.fields(found):
            factory = "…" if field.default_factory is not dataclasses.MISSING else ""
            default = _default(field.default) if field.default is not dataclasses.MISSING else factory
            yield f"{field.name}: {_type(field.type)}{f' = {default}' if default else ''}"
    elif issubclass(found, tuple):
        defaults = getattr(found, "_field_defaults", {})
        for name, kind in found.__annotations__.items():
            yield f"{name}: {_type(kind)}{f' = {_default(defaults[name])}' if name in defaults else ''}"
    elif "interface" in getattr(found, "__annotations__", {}):
        yield from (f"{name}: {_type(kind)}" for name, kind in found.__annotations__.items())
    elif not has_maker and found.__init__ is not object.__init__:
        yield _signature("__init__", found.__init__)


def _members(name: str, found: type) -> Iterator[str]:
    """Yield a row for each public method and property that the class itself defines, with its first line."""
    if issubclass(found, enum.Enum | BaseException):
        return
    for key, value in vars(found).items():
        if key.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property | cached_property)):
            continue
        shown = f"{key}{_arguments(value)}" if inspect.isfunction(value) else key
        yield f"| `{shown}` | {_first_line(value)} |"


def _first_line(found: Any) -> str:
    text = inspect.getdoc(found.fget if isinstance(found, property) else found) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def _arguments(function: Any) -> str:
    """Return the names of a method's arguments."""
    found = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    names, starred = [], False
    for each in found:
        if each.kind is each.KEYWORD_ONLY and not starred:
            names.append("*")
            starred = True
        names.append(each.name if each.default is each.empty else f"{each.name}={_default(each.default)}")
    return f"({', '.join(names)})"


def _signature(name: str, function: Any) -> str:
    signature, parts, starred = inspect.signature(function), [], False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        parts.append(f"{each.name}: {_type(each.annotation)}{default}")
    result = f" -> {_type(signature.return_annotation)}"
    whole = f"{name}({', '.join(parts)}){result}"
    return (
        whole if len(whole) <= MAX_LINE else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"
    )


def _type(kind: Any) -> str:
    text = kind.strip("\"'") if isinstance(kind, str) else inspect.formatannotation(kind)
    text = _QUALIFIED.sub("", text.replace("heddle_pb2.", "pb::")).replace("pb::", "pb.")
    for long, short in _SHORTEN.items():
        text = re.sub(rf"\b{re.escape(long)}", short, text)
    return text


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if dataclasses.is_dataclass(value) or (isinstance(value, tuple) and value):
        return "…"
    return repr(value)


def _text(found: Any) -> str:
    """Return a docstring as Markdown: lines that are indented are code."""
    lines, code = [], False
    for line in (inspect.getdoc(found) or "").split("\n"):
        indented = line.startswith("    ") or (code and not line)
        if indented and not code and line:
            lines.append("```python")
        elif code and not indented:
            lines[-1:] = ["```", ""] if not lines[-1] else [lines[-1], "```"]
        code = indented and (code or bool(line))
        lines.append(line.removeprefix("    ") if code else line)
    return "\n".join((*lines, "```") if code else lines)


def _fenced(text: str) -> str:
    return f"```python\n{text}\n```\n"


if __name__ == "__main__":
    print(markdown(), end="")
