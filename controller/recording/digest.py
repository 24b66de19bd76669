"""Compute digests of effects that are equal in every process for equal decisions.

Sets and mappings are sorted, because their order differs between processes. Classes have their recorded names. What an
event brought (requests, rules compiled before) is represented by its name.
"""

import io
import pickle
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import IO, Any

from heddle.controller.model.effect import Compile, Effect, Persist, Place, Solve
from heddle.controller.model.error import HeddleError
from heddle.controller.model.job import Collective, JobRequest
from heddle.controller.model.plan import Certificate
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.loads import LinkLoads
from heddle.controller.recording.names import recorded_name

DIGEST_BYTES = 12
_SINCE_VERSION_2 = frozenset(
    {"degraded", "assumed", "algorithm", "converge", "below_goal", "paths_per_flow", "spraying"}
)
"""Fields of _GREW that files of versions 1 and 2 do not know; not written while they say nothing."""
_GREW = Solve | Place | Certificate | Collective


class Digester:
    """Digests effects; keeps the digests of flow tables, which many effects share.

    `former` digests are those of files of version 1. `without` names the tables of the journal that came later, and
    `shorter` says how many fields those classes had that have got some since.
    """

    def __init__(
        self, *, former: bool = False, without: Collection[str] = (), shorter: Mapping[type, int] = MappingProxyType({})
    ) -> None:
        self._without, self.shorter = without, shorter
        self._pickler = _FormerPickler if former else _PlainPickler
        self._tables: dict[int, tuple[FlowTable, bytes]] = {}  # the table itself, so that its id stays in use

    def digest(self, effect: Effect) -> bytes:
        """Return the digest of an effect's values."""
        if isinstance(effect, Compile):
            effect = replace(effect, before={})
        if isinstance(effect, Persist):  # the values are those of the state, which other effects show
            values = {key: value is None for key, value in effect.values.items() if key[0] not in self._without}
            effect = replace(effect, values=values)
        file = io.BytesIO()
        self._pickler(file, self).dump(effect)
        return _digest(file.getvalue())

    def of_table(self, table: FlowTable) -> bytes:
        """Return the digest of a job's paths, ports and rates."""
        known = self._tables.get(id(table))
        if known is None:
            turns = (table.turns.slot, table.turns.slots, table.turns.slot_ns) if table.turns is not None else ()
            flags = () if table.conserving is None else (table.conserving,)
            sets = () if table.sets is None else (table.sets.length, table.sets.flat())
            columns = (
                table.hops, table.ports, table.reverse_hops, table.reverse_ports, table.rates, *turns, *flags, *sets
            )  # fmt: skip
            known = table, _digest(b"".join(column.tobytes() for column in columns))
            self._tables[id(table)] = known
        return known[1]


def _stand_in(value: Any) -> Any:
    """Return what stands for a value; None writes the value itself."""
    if isinstance(value, frozenset):
        return "set", sorted(value, key=repr)
    if isinstance(value, Mapping):
        return None if isinstance(value, LinkLoads) else ("map", sorted(value.items(), key=_key))
    return None


def _with_fields(value: Any, count: int | None) -> Any:
    """Return what pickle writes for a value of a dataclass with its first fields; None: with all."""
    made, of, state = value.__reduce_ex__(5)[:3]
    named = zip(fields(value), state, strict=True)
    return made, of, [each for field, each in islice(named, count) if field.name not in _SINCE_VERSION_2 or each]


class _Reduced:
    """What both picklers write for objects that are not written field by field."""

    _digester: Digester

    def reducer_override(self, value: Any) -> Any:
        """Return what is written instead of an object, as Python's own picklers call it."""
        if isinstance(value, FlowTable):
            return str, (self._digester.of_table(value),)
        if isinstance(value, LinkLoads):
            return str, ()  # follows from the flows
        if isinstance(value, JobRequest):
            return str, (value.job_id,)
        if isinstance(value, HeddleError):
            return str, (type(value).__name__, str(value))
        count = self._digester.shorter.get(type(value))
        if count is not None and isinstance(value, tuple):
            whole: Any = value.__reduce_ex__(5)
            return whole[0], whole[1][: 1 + count]  # the class and its first fields
        if count is not None or isinstance(value, _GREW):
            return _with_fields(value, count)
        return NotImplemented


class _PlainPickler(_Reduced, pickle.Pickler):
    """Writes a value without references and in a fixed order."""

    def __init__(self, file: IO[bytes], digester: Digester) -> None:
        super().__init__(file, protocol=5)
        self.fast = True
        self._digester = digester

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for a value; None writes the value itself."""
        return ("class", *recorded_name(value)) if isinstance(value, type) else _stand_in(value)


class _FormerPickler(_Reduced, pickle._Pickler):
    """Writes what version 1 wrote, with classes as opcodes: slower, since only Python's own pickler lets us do so."""

    def __init__(self, file: IO[bytes], digester: Digester) -> None:
        super().__init__(file, protocol=5)
        self.fast = True
        self._digester = digester

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for a value; None writes the value itself."""
        return _stand_in(value)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a class by its recorded name."""
        stream: Any = self  # whose methods have no types
        for part in recorded_name(obj):
            stream.save(part)
        stream.write(pickle.STACK_GLOBAL)


def _key(item: tuple[Any, Any]) -> str:
    return repr(item[0])


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()
