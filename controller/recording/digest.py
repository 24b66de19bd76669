"""Compute digests of effects that are equal in every process for equal decisions.

Sets and mappings are sorted, because their order differs between processes. What an event brought (requests, rules
compiled before) is represented by its name.
"""

import io
import pickle
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from heddle.controller.model.effect import Compile, Effect, Persist
from heddle.controller.model.error import HeddleError
from heddle.controller.model.job import JobRequest
from heddle.controller.planner.flow_table import FlowTable
from heddle.controller.planner.proof.loads import LinkLoads

DIGEST_BYTES = 12


class Digester:
    """Digests effects; keeps the digests of flow tables, which many effects share."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[FlowTable, bytes]] = {}  # the table itself, so that its id stays in use

    def digest(self, effect: Effect) -> bytes:
        """Return the digest of an effect's values."""
        if isinstance(effect, Compile):
            effect = replace(effect, before={})
        if isinstance(effect, Persist):  # the values are those of the state, which other effects show
            effect = replace(effect, values={key: value is None for key, value in effect.values.items()})
        return _digest(_plain_bytes(effect, self))

    def of_table(self, table: FlowTable) -> bytes:
        """Return the digest of a job's paths, ports and rates."""
        known = self._tables.get(id(table))
        if known is None:
            turns = (table.turns.slot, table.turns.slots, table.turns.slot_ns) if table.turns is not None else ()
            columns = (table.hops, table.ports, table.reverse_hops, table.reverse_ports, table.rates, *turns)
            known = table, _digest(b"".join(column.tobytes() for column in columns))
            self._tables[id(table)] = known
        return known[1]


class _PlainPickler(pickle.Pickler):
    """Writes a value without references and in a fixed order."""

    def __init__(self, file: io.BytesIO, digester: Digester) -> None:
        super().__init__(file, protocol=5)
        self.fast = True
        self._digester = digester

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for a value; None writes the value itself."""
        if isinstance(value, frozenset):
            return "set", sorted(value, key=repr)
        if isinstance(value, Mapping):
            return None if isinstance(value, LinkLoads) else ("map", sorted(value.items(), key=_key))
        return None

    def reducer_override(self, value: Any) -> Any:
        """Return what stands for objects that are not written field by field."""
        if isinstance(value, FlowTable):
            return str, (self._digester.of_table(value),)
        if isinstance(value, LinkLoads):
            return str, ()  # follows from the flows
        if isinstance(value, JobRequest):
            return str, (value.job_id,)
        if isinstance(value, HeddleError):
            return str, (type(value).__name__, str(value))
        return NotImplemented


def _key(item: tuple[Any, Any]) -> str:
    return repr(item[0])


def _plain_bytes(value: object, digester: Digester) -> bytes:
    file = io.BytesIO()
    _PlainPickler(file, digester).dump(value)
    return file.getvalue()


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()
