"""The work of `heddle state --etcd`: show, copy and replace what several controllers have in etcd.

A copy is a file as of one controller's journal, so that either can be restored from either.
"""

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import NamedTuple, TypeVar

from heddle.controller.model.error import InputError, InUseError, UnavailableError
from heddle.controller.runtime.ports import EPOCH_SHIFT, StoreError
from heddle.controller.store.etcd import contents
from heddle.controller.store.etcd.client import EtcdClient, EtcdError, EtcdTlsError, prefix_end
from heddle.controller.store.etcd.identity.recognition import surveyed
from heddle.controller.store.etcd.identity.record import JOURNAL_BYTES, Record, adopted, encoded, epoch_reached
from heddle.controller.store.etcd.journal import EtcdStore, epoch_of
from heddle.controller.store.etcd.keys import Keys, created_at, delete, put
from heddle.controller.store.etcd.proto import etcd_pb2 as pb
from heddle.controller.store.etcd.term import Leader, Term, take
from heddle.controller.store.etcd.tls import EtcdTls, has_tls
from heddle.controller.store.journal import SqliteStore, check_file, create, read_values
from heddle.controller.store.state_directory import epoch_in
from heddle.foundation.certificate import CertificateError
from heddle.foundation.identity import TLS_VARIABLE
from heddle.foundation.tls_files import files_in

SURVEY_S = 5.0
COMMAND_LEASE_S = 60
"""A command that is killed leaves the controllers without a leader for so long."""
Key = tuple[str, str]
Result = TypeVar("Result")


class Place(NamedTuple):
    """Where several controllers have the state of a fabric."""

    endpoints: Sequence[str]
    fabric: str
    tls: EtcdTls | None = None


def place_of(endpoints: Sequence[str], fabric: str, directory: str | None) -> Place:
    """Return a place; `directory` has cert.pem, key.pem and ca.pem for members with https://. Raises InputError."""
    if not any(map(has_tls, endpoints)):
        return Place(endpoints, fabric)
    if not directory:
        raise InputError(f"https:// needs a certificate: --tls or {TLS_VARIABLE} names its directory")
    try:
        return Place(endpoints, fabric, EtcdTls(files_in(Path(directory)), lambda line: None))
    except CertificateError as error:
        raise InputError(f"--tls: {error}") from None


def init(place: Place, above: int, replaced: Sequence[str] = ()) -> int:
    """Set the epoch of a fabric that has none, above a generation that a switch has reported; return it.

    Controllers that have used one of the journals `replaced` use this one then.
    """

    async def work(client: EtcdClient, keys: Keys) -> int:
        epoch = (above >> EPOCH_SHIFT) + 1
        absent = [created_at(key, 0) for key in (keys.epoch, keys.sequence, keys.cluster)]
        _, cluster = await _identity(client, keys)
        record = adopted(None, cluster, _new_id(), tuple(replaced))
        written = [put(keys.epoch, b"%d" % epoch), put(keys.cluster, encoded(record))]
        if not (await client.txn(pb.TxnRequest(compare=absent, success=written))).succeeded:
            raise InUseError(f"{client.place} has a journal of fabric {place.fabric} already; nothing was changed")
        return epoch

    return _run(place, work)


def adopt(place: Place, above: int, replaced: Sequence[str] = ()) -> tuple[str, int]:
    """Let the controllers use the journal that is there, which a snapshot has brought; return its new id, its epoch.

    It follows the journal that it is a copy of, and those `replaced`. Where a controller leads, it begins a new term.
    """

    async def work(client: EtcdClient, keys: Keys) -> tuple[str, int]:
        before, cluster = await _identity(client, keys)
        counts = await client.range(keys.sequence)
        if before is None and not counts.found:
            raise InputError(
                f"{client.place} has no journal of fabric {place.fabric}: restore a snapshot of etcd first, or a copy "
                "by `heddle state restore`; `heddle state init` begins with nothing"
            )
        epoch = max(await _epoch_reached(client, keys), above >> EPOCH_SHIFT) + 1
        record = adopted(before, cluster, _new_id(), tuple(replaced))
        written = [put(keys.cluster, encoded(record)), put(keys.epoch, b"%d" % epoch), delete(keys.leader)]
        await client.txn(pb.TxnRequest(success=written))
        return record.journal, epoch

    return _run(place, work)


def raise_epoch(place: Place, above: int) -> int:
    """Raise the generations above one that a switch has reported; return the epoch. The leader begins a new term."""

    async def work(client: EtcdClient, keys: Keys) -> int:
        epoch = max(await _epoch_reached(client, keys), above >> EPOCH_SHIFT) + 1
        await client.txn(pb.TxnRequest(success=[put(keys.epoch, b"%d" % epoch), delete(keys.leader)]))
        return epoch

    return _run(place, work)


def check(place: Place) -> dict[str, int]:
    """Return the epoch, and how many values of each kind there are; raises InputError for a foreign key."""

    async def work(client: EtcdClient, keys: Keys) -> dict[str, int]:
        counts = {"epoch": await epoch_of(client, keys)}
        for kind, _ in await _values(client, keys):
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    return _run(place, work)


def backup(place: Place, file: Path) -> None:
    """Copy the journal to a new file, also while a controller leads."""

    async def work(client: EtcdClient, keys: Keys) -> None:
        if file.exists():
            raise InUseError(f"{file} exists already; nothing was changed")
        values, epoch = await _values(client, keys), await _epoch_reached(client, keys)
        create(file, epoch=epoch)
        store = SqliteStore(file)
        store.write(values)
        store.close()

    _run(place, work)


def restore(place: Place, file: Path, above: int, replaced: Sequence[str] = ()) -> int:
    """Replace the journal by a copy, while no controller leads; return its epoch, above that of both and a number.

    Controllers that have used one of the journals `replaced` use this one then.
    """
    if check_file(file, thoroughly=True) is None:
        raise InputError(f"{file}: there is no such copy")
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        wanted = dict(read_values(connection))

    async def work(client: EtcdClient, keys: Keys) -> int:
        async with _leading(client, keys) as (term, store):
            before = await asyncio.to_thread(store.read)
            epoch = max(await _epoch_reached(client, keys), epoch_in(file), above >> EPOCH_SHIFT) + 1
            record, cluster = await _identity(client, keys)
            if record is None or record.cluster != cluster or replaced:
                record = adopted(record, cluster, _new_id(), tuple(replaced))
            await term.write([put(keys.epoch, b"%d" % epoch), put(keys.cluster, encoded(record))])
            await asyncio.to_thread(store.write, {**dict.fromkeys(before), **wanted})
            return epoch

    return _run(place, work)


def _run(place: Place, work: Callable[[EtcdClient, Keys], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        client = EtcdClient(place.endpoints, place.tls)
        try:
            return await work(client, Keys(place.fabric))
        except EtcdTlsError as error:
            raise InputError(str(error)) from None
        except (EtcdError, StoreError) as error:
            raise UnavailableError(str(error)) from None
        finally:
            await client.close()

    return asyncio.run(run())


async def _identity(client: EtcdClient, keys: Keys) -> tuple[Record | None, int]:
    """Return the identity of the journal that is there, and etcd's cluster id; raises InputError for several."""
    seen = await surveyed(client, keys, SURVEY_S)
    clusters = {each.cluster: each for each in seen}
    if len(clusters) > 1:
        found = ", ".join(f"{each.endpoint} of {each.cluster:x}" for each in clusters.values())
        raise InputError(f"--etcd: members of different etcd clusters ({found}): name those of one")
    if not seen:
        await client.range(keys.cluster)  # raises what keeps them from replying
        raise EtcdError(f"{client.place}: no reply within {SURVEY_S:g} s")
    return seen[0].record, seen[0].cluster


async def _epoch_reached(client: EtcdClient, keys: Keys) -> int:
    """Return the epoch that generations of this journal have reached."""
    revision, _ = await client.range(keys.epoch)
    return epoch_reached(await epoch_of(client, keys), revision)


def _new_id() -> str:
    return secrets.token_hex(JOURNAL_BYTES)


async def _values(client: EtcdClient, keys: Keys) -> dict[Key, bytes]:
    """Return the values of one revision, also while a controller leads."""
    found = (await client.range(keys.root, prefix_end(keys.root))).found
    return contents.whole(keys, found, client.place)


@asynccontextmanager
async def _leading(client: EtcdClient, keys: Keys) -> AsyncIterator[tuple[Term, EtcdStore]]:
    """Take the leader's place for a command; raises InUseError where a controller leads."""
    lease = await client.grant(COMMAND_LEASE_S)
    try:
        term = await take(client, keys, lease.id, Leader(name="heddle state", address=""))
        if not isinstance(term, Term):
            raise InUseError(f"{term.name} at {term.address} leads this fabric; end all its controllers first")
        yield term, EtcdStore(client, keys, term, asyncio.get_running_loop(), lambda _: None)
    finally:
        await client.revoke(lease.id)
