"""Read the parameters of a request's path and query: each is declared, others are refused."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request

from heddle.controller.model.admission import quoted
from heddle.controller.model.error import InputError

MAX_TIME_MS = 253_402_300_799_999
"""The end of the year 9999."""
MAX_TEXT = 512


class Parameter(NamedTuple):
    """A parameter: text, or an integer within its bounds; None where it is left out."""

    name: str
    text: str
    is_number: bool = False
    minimum: int = 0
    maximum: int = MAX_TIME_MS
    choices: tuple[str, ...] = ()
    is_required: bool = False

    def read(self, text: str) -> str | int:
        """Return the value of a text; raises InputError."""
        if self.choices and text not in self.choices:
            raise InputError(f"{self.name}: {quoted(text)} is none of {', '.join(self.choices)}")
        if not self.is_number:
            if len(text) > MAX_TEXT:
                raise InputError(f"{self.name}: longer than {MAX_TEXT} characters")
            return text
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
            raise InputError(f"{self.name}: {quoted(text)} is no whole number")
        if not self.minimum <= int(text) <= self.maximum:
            raise InputError(f"{self.name}: {text} is not within {self.minimum} to {self.maximum}")
        return int(text)

    def schema(self) -> dict[str, object]:
        """Return the JSON schema of the value."""
        if self.is_number:
            return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        return {"type": "string", "maxLength": MAX_TEXT, **({"enum": list(self.choices)} if self.choices else {})}


def values_of(request: Request, in_path: Sequence[Parameter], in_query: Sequence[Parameter]) -> Mapping[str, Any]:
    """Return the values by name; raises InputError for what is malformed, unknown or given twice."""
    known = {each.name: each for each in in_query}
    values: dict[str, Any] = {each.name: each.read(str(request.path_params[each.name])) for each in in_path}
    for name, text in request.query_params.multi_items():
        if name not in known:
            there = f"the parameters are {', '.join(known)}" if known else "there are none here"
            raise InputError(f"unknown parameter {quoted(name)}; {there}")
        if name in values:
            raise InputError(f"{name}: given twice")
        values[name] = known[name].read(text)
    for each in in_query:
        if each.is_required and each.name not in values:
            raise InputError(f"{each.name}: is missing")
    return values
