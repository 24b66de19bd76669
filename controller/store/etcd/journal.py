"""The journal of several controllers in etcd: `runtime.ports.StateStore`, for one term of one leader.

A change that fits one transaction of etcd is one. A larger one is written beside first, then marked as committed, then
applied: the next leader applies what is committed, and ignores what is not.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from heddle.controller.runtime.ports import FencedError, StoreError
from heddle.controller.store.etcd import contents
from heddle.controller.store.etcd.client import EtcdClient, EtcdError, prefix_end
from heddle.controller.store.etcd.keys import FIRST_EPOCH, PART_BYTES, Keys, delete, put
from heddle.controller.store.etcd.proto import etcd_pb2 as pb
from heddle.controller.store.etcd.term import Term

MAX_OPERATIONS = 100
"""etcd refuses a transaction of more than 128."""
MAX_BYTES = 1 << 20
"""etcd refuses a request of more than 1.5 MiB."""
Key = tuple[str, str]
OnFenced = Callable[[str], None]
Result = TypeVar("Result")


class EtcdStore:
    """The journal during one term. Called in any thread but that of `running`, the event loop of the client."""

    def __init__(
        self, client: EtcdClient, keys: Keys, term: Term, running: asyncio.AbstractEventLoop, on_fenced: OnFenced
    ) -> None:
        """Create it; `on_fenced` is called in the event loop when this controller turns out not to lead."""
        self.place = client.place
        self._client, self._keys, self._term, self._running = client, keys, term, running
        self._on_fenced = on_fenced
        self._parts: dict[Key, int] = {}
        self._is_unfinished = False
        """A large change may be written beside, and not be applied."""

    def read(self) -> Mapping[Key, bytes]:
        """Return all values; raises InputError where a key is none of ours, and StoreError."""
        return self._wait(self._read())

    def write(self, values: Mapping[Key, bytes | None]) -> None:
        """Write values as one transaction that a majority of etcd holds afterwards; raises StoreError, FencedError."""
        self._wait(self._write(values))

    def check(self) -> None:
        """Check that this controller still leads; raises FencedError, StoreError."""
        self._wait(self._term.check())

    def next_generation(self) -> int:
        """Return the generation of this term, which is above those of all before; raises StoreError."""
        return self._wait(self._generation())

    def close(self) -> None:
        """Do nothing: the client outlives the term."""

    async def _generation(self) -> int:
        return self._term.generation(await epoch_of(self._client, self._keys))

    async def _read(self) -> dict[Key, bytes]:
        await self._redo()
        found = (await self._client.range(self._keys.values, prefix_end(self._keys.values))).found
        values = contents.values(self._keys, contents.parts(self._keys, found), self.place)
        self._parts = {key: len(parts) for key, parts in values.items()}
        return {key: b"".join(parts) for key, parts in values.items()}

    async def _write(self, values: Mapping[Key, bytes | None]) -> None:
        if self._is_unfinished:
            await self._redo()
        operations = [each for key, content in values.items() for each in self._operations(key, content)]
        pieces = list(_pieces(operations))
        if len(pieces) == 1:
            await self._term.write(pieces[0])
        elif pieces:
            self._is_unfinished = True
            for number, piece in enumerate(pieces):
                beside = pb.TxnRequest(success=piece).SerializeToString()
                await self._term.write([put(self._keys.redo_of(number), beside)])
            await self._term.write([put(self._keys.committed, b"%d" % len(pieces))])
            await self._apply(pieces)
        self._parts |= {key: _count(content) for key, content in values.items()}

    async def _redo(self) -> None:
        """Apply a change that a leader before has committed."""
        found = (await self._client.range(self._keys.redo, prefix_end(self._keys.redo))).found
        if found:
            await self._apply(contents.committed(self._keys, {each.key: each.value for each in found}))
        self._is_unfinished = False

    async def _apply(self, pieces: Iterable[Sequence[pb.RequestOp]]) -> None:
        for piece in pieces:
            await self._term.write(piece)
        await self._term.write([delete(self._keys.redo, prefix_end(self._keys.redo))])
        self._is_unfinished = False

    def _operations(self, key: Key, content: bytes | None) -> Iterator[pb.RequestOp]:
        """Yield what writes a value in parts, and deletes the parts that a longer one had before."""
        count = _count(content)
        for number in range(count):
            yield put(self._keys.part(*key, number), (content or b"")[number * PART_BYTES : (number + 1) * PART_BYTES])
        before = self._parts.get(key, 0)
        self._parts[key] = max(count, before)  # also if the reply is lost
        for number in range(count, before):
            yield delete(self._keys.part(*key, number))

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._running).result()
        except FencedError as error:
            self._running.call_soon_threadsafe(self._on_fenced, str(error))
            raise
        except EtcdError as error:
            raise StoreError(f"the journal in etcd cannot be used: {error}") from None


async def epoch_of(client: EtcdClient, keys: Keys) -> int:
    """Return the epoch of a fabric's generations; raises EtcdError."""
    found = (await client.range(keys.epoch)).found
    return int(found[0].value) if found else FIRST_EPOCH


def _count(content: bytes | None) -> int:
    """Return the number of parts of a value; an empty one has a part, a deleted one none."""
    return 0 if content is None else max(1, -(-len(content) // PART_BYTES))


def _pieces(operations: Iterable[pb.RequestOp]) -> Iterator[list[pb.RequestOp]]:
    """Divide operations among as few transactions as etcd accepts."""
    piece: list[pb.RequestOp] = []
    size = 0
    for each in operations:
        if piece and (len(piece) == MAX_OPERATIONS or size + each.ByteSize() > MAX_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(each)
        size += each.ByteSize()
    if piece:
        yield piece
