"""Put the journal's values together from the keys that etcd holds."""

from collections.abc import Iterable, Mapping, Sequence

from heddle.controller.model.error import InputError
from heddle.controller.store.etcd.keys import Keys
from heddle.controller.store.etcd.proto import etcd_pb2 as pb

Key = tuple[str, str]


def committed(keys: Keys, found: Mapping[bytes, bytes]) -> list[Sequence[pb.RequestOp]]:
    """Return the transactions of a large change that is committed and may not be applied yet."""
    count = int(found.get(keys.committed, b"0"))
    return [pb.TxnRequest.FromString(found[keys.redo_of(number)]).success for number in range(count)]


def parts(keys: Keys, found: Iterable[pb.KeyValue]) -> dict[bytes, bytes]:
    """Return the parts of values in key order, after a committed change; `found` is of one revision."""
    held = {bytes(each.key): bytes(each.value) for each in found}
    for piece in committed(keys, held):
        for operation in piece:
            if operation.HasField("request_put"):
                held[operation.request_put.key] = operation.request_put.value
            else:
                held.pop(operation.request_delete_range.key, None)
    return {key: held[key] for key in sorted(held) if key.startswith(keys.values)}


def whole(keys: Keys, found: Iterable[pb.KeyValue], place: str) -> dict[Key, bytes]:
    """Return each value of one revision, after a committed change; raises InputError for a key that is none of ours."""
    return {key: b"".join(pieces) for key, pieces in values(keys, parts(keys, found), place).items()}


def values(keys: Keys, found: Mapping[bytes, bytes], place: str) -> dict[Key, list[bytes]]:
    """Return each value's parts; raises InputError for a key that is none of ours."""
    joined: dict[Key, list[bytes]] = {}
    for key, content in found.items():
        try:
            name = keys.value_of(key)
        except ValueError:
            raise InputError(f"{place}: {key!r} is no key of heddle; delete it by etcdctl") from None
        joined.setdefault(name, []).append(content)
    return joined
