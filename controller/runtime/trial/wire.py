"""The messages between the controller and the process that tries a fabric file."""

from collections.abc import Callable
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric
from heddle.controller.runtime.journal.fitting import Key
from heddle.controller.runtime.journal.foresight import Foresight, Running

Reader = Callable[[str], Fabric]
"""Reads a fabric from the text of its file, and raises HeddleError; pickled by its name."""


class Begin(NamedTuple):
    """The first message: a fabric, or the text of its file and what reads it. The reply is its name, or an error."""

    source: str | Fabric
    read: Reader


class Judge(NamedTuple):
    """Compare the fabric with what runs; the reply is a `Judged`."""

    running: Running


class Judged(NamedTuple):
    """What the fabric would change; `gone` are keys of the journal for which it has no part."""

    found: Foresight
    gone: frozenset[Key]
    is_same: bool


class Check(NamedTuple):
    """Judge again whether the fabric may follow; the reply is a `Checked`.

    `kept` names the jobs that are as they were in the last request, which `running` leaves out.
    """

    running: Running
    kept: frozenset[str]


class Checked(NamedTuple):
    """Why the fabric may not follow, "" where it may; and the keys of the journal for which it has no part."""

    refusal: str
    gone: frozenset[Key]


class HandOver(NamedTuple):
    """Return the fabric that was judged last; the reply is a `HandedOver`."""


class HandedOver(NamedTuple):
    """The fabric as the journal has it, and pickled, with the port layout of jobs that run: a thread unpickles it."""

    whole: bytes
    pickled: bytes
