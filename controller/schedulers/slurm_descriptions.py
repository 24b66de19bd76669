"""Read how a job of Slurm is described: by its comment, its environment, and rules for its account and partition.

    sbatch --comment "heddle: collective=ALL_TO_ALL bytes=4000000000 qps=4" …
    HEDDLE_SENDS="collective=ALL_TO_ALL bytes=4000000000 qps=4" srun …

`squeue` prints them as they are, newlines included. So they are read for one job at a time: no job speaks for another.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from heddle.controller.model.error import InputError
from heddle.controller.model.job import OFFERED_KINDS, Algorithm, Collective, CollectiveKind
from heddle.controller.model.limit import MAX_QPS_PER_FLOW
from heddle.controller.model.suggest import did_you_mean

DESCRIBE = ("squeue", "--noheader", "--format=%a|%P|%k", "--jobs")
"""The command, before the id of one job."""
ASSUMED_BYTES = 1_000_000_000
MAX_BYTES_DIGITS = 18
NO_ACCOUNT = "(null)"
_DESCRIPTION = re.compile(r"(?:^|\s)heddle:([^\n]*)")
_NUMBER = re.compile(r"[1-9][0-9]*")
_KEYS = ("collective", "bytes", "qps", "algorithm")


class Description(NamedTuple):
    """The account and the partition, empty without one, and the comment."""

    account: str
    partition: str
    comment: str


class Rule(NamedTuple):
    """What jobs of an account and a partition send; an empty text means any."""

    account: str
    partition: str
    collective: Collective


def collective_by_rule(rules: Iterable[Rule], description: Description) -> Collective | None:
    """Return the collective of the first rule that fits a job, None where none does."""
    for rule in rules:
        if rule.account in ("", description.account) and rule.partition in ("", description.partition):
            return rule.collective
    return None


def description_of(text: str) -> Description:
    """Return what DESCRIBE printed for one job; of a heterogeneous one the first component speaks."""
    account, _, others = text.partition("|")
    partition, _, comment = others.partition("|")
    return Description(_name(account), _name(partition), comment)


def _name(text: str) -> str:
    return "" if text == NO_ACCOUNT or not text.isprintable() else text


def described_collective(comment: str) -> Collective | None:
    """Return the collective over all ranks that a comment describes, None where it describes none.

    Raises InputError for a key or value that is none.
    """
    match = _DESCRIPTION.search(comment)
    return None if match is None else _collective(match[1], "comment")


def sent_collective(sends: str) -> Collective:
    """Return the collective over all ranks that HEDDLE_SENDS describes, as a comment does after `heddle:`.

    Raises InputError for a key or value that is none.
    """
    return _collective(sends, "HEDDLE_SENDS")


def _collective(text: str, where: str) -> Collective:
    values = {
        "collective": "RING_ALL_REDUCE",
        "bytes": str(ASSUMED_BYTES),
        "qps": "1",
        "algorithm": Algorithm.CONTRACT.name,
    }
    named: set[str] = set()
    for word in text.split():
        key, _, value = word.partition("=")
        if key not in _KEYS:
            raise InputError(f"{where}: {word[:60]!r} is none of {', '.join(f'{each}=' for each in _KEYS)}")
        if key in named:
            raise InputError(f"{where}: {key}= stands there twice")
        named.add(key)
        values[key] = value
    kind, size, qps, algorithm = values.values()
    if kind not in OFFERED_KINDS:
        guess = did_you_mean(kind[:60].upper(), OFFERED_KINDS) or f"; one of {', '.join(OFFERED_KINDS)}"
        raise InputError(f"{where}: collective={kind[:60]!r} is no collective over all ranks{guess}")
    if not _NUMBER.fullmatch(size) or len(size) > MAX_BYTES_DIGITS:
        raise InputError(f"{where}: bytes={size[:60]!r} is no number of bytes")
    if not _NUMBER.fullmatch(qps) or len(qps) > 2 or int(qps) > MAX_QPS_PER_FLOW:
        raise InputError(f"{where}: qps={qps[:60]!r} is no number from 1 to {MAX_QPS_PER_FLOW}")
    if algorithm not in Algorithm.__members__:
        names = ", ".join(Algorithm.__members__)
        raise InputError(f"{where}: algorithm={algorithm[:60]!r} is none of {names}")
    return Collective(
        kind=CollectiveKind[kind], size_bytes=int(size), qps_per_flow=int(qps), algorithm=Algorithm[algorithm]
    )
