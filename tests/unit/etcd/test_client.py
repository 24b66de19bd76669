"""The client of etcd against real members: what it reads, and what it does when members fail."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from heddle.controller.runtime.leadership import boot_ns
from heddle.controller.store.etcd.client import CompactedError, EtcdClient, EtcdUnavailableError, prefix_end
from heddle.controller.store.etcd.proto import etcd_pb2 as pb

FIRST_REVISION = 1


@asynccontextmanager
async def client_of(*endpoints):
    client = EtcdClient(endpoints)
    try:
        yield client
    finally:
        await client.close()


def put(key, value=b"v", lease=0):
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))


async def write(client, *puts):
    return (await client.txn(pb.TxnRequest(success=puts), within_s=30)).header.revision


async def next_of(watch):
    return await asyncio.wait_for(anext(watch), 30)


async def test_a_range_of_more_keys_than_a_reply_holds_is_of_one_revision(one_etcd):
    async with client_of(*one_etcd.endpoints) as client:
        keys = [b"many/%05d" % number for number in range(1_050)]
        for at in range(0, len(keys), 100):
            await write(client, *(put(key, key) for key in keys[at : at + 100]))
        found = await client.range(b"many/", prefix_end(b"many/"))
        assert [(each.key, each.value) for each in found.found] == [(key, key) for key in keys]


async def test_a_transaction_whose_condition_fails_changes_nothing(one_etcd):
    async with client_of(*one_etcd.endpoints) as client:
        absent = pb.Compare(key=b"txn/a", target=pb.Compare.CREATE, result=pb.Compare.EQUAL, create_revision=0)
        request = pb.TxnRequest(compare=[absent], success=[put(b"txn/a", b"1")])
        assert (await client.txn(request)).succeeded
        assert not (await client.txn(request)).succeeded
        (only,) = (await client.range(b"txn/a")).found
        assert only.version == 1


async def test_a_revoked_lease_takes_its_keys_along_and_is_not_kept_alive(one_etcd):
    async with client_of(*one_etcd.endpoints) as client:
        lease = await client.grant(60)
        await write(client, put(b"leased", lease=lease.id))
        assert (await client.keep_alive(lease.id, 10, boot_ns)).ttl_s == lease.ttl_s == 60
        await client.revoke(lease.id)
        assert (await client.range(b"leased")).found == []
        assert (await client.keep_alive(lease.id, 10, boot_ns)).ttl_s == 0


async def test_a_watch_from_a_compacted_revision_asks_for_a_new_read(one_etcd):
    async with client_of(*one_etcd.endpoints) as client:
        await write(client, put(b"old/a"))
        last = await write(client, put(b"old/a"))
        await client.compact(last)
        with pytest.raises(CompactedError):
            await next_of(client.watch(b"old/", prefix_end(b"old/"), FIRST_REVISION))


async def test_a_watch_that_falls_behind_a_compaction_while_its_member_is_away_asks_for_a_new_read(three_etcds):
    async with client_of(three_etcds.endpoints[0]) as watcher, client_of(*three_etcds.endpoints[1:]) as writer:
        first = await write(writer, put(b"k/a", b"1"))
        watch = watcher.watch(b"k/", prefix_end(b"k/"), first)
        assert (await next_of(watch)).kv.value == b"1"
        three_etcds.kill(0)
        for number in range(5):
            last = await write(writer, put(b"k/a", b"%d" % number))
        await writer.compact(last)
        three_etcds.start(0)
        with pytest.raises(CompactedError):
            await next_of(watch)


async def test_a_watch_yields_each_change_once_and_in_order_while_its_members_are_killed(three_etcds):
    async with client_of(*three_etcds.endpoints) as watcher, client_of(*three_etcds.endpoints) as writer:
        first = await write(writer, put(b"k/a", b"0"))
        watch = watcher.watch(b"k/", prefix_end(b"k/"), first)
        seen = [(await next_of(watch)).kv.value]
        for number in range(1, 40):
            await write(writer, put(b"k/a", b"%d" % number))
            if number == 10:
                three_etcds.kill(0)  # the member that the watch and the writer use
            elif number == 25:
                three_etcds.start(0)
                three_etcds.wait_for_leader()
                three_etcds.kill(1)
        while len(seen) < 40:
            seen.append((await next_of(watch)).kv.value)
        assert seen == [b"%d" % number for number in range(40)]


async def test_a_stopped_member_delays_a_call_only_until_the_next_replies(three_etcds):
    async with client_of(*three_etcds.endpoints) as client:
        await write(client, put(b"k/a", b"1"))
        three_etcds.pause(0)
        assert (await client.range(b"k/a")).found[0].value == b"1"
        three_etcds.pause(1)  # two of three: no majority
        with pytest.raises(EtcdUnavailableError, match="no reply within"):
            await client.txn(pb.TxnRequest(success=[put(b"k/a", b"2")]), within_s=2)
        three_etcds.resume(0)
        three_etcds.resume(1)
        await write(client, put(b"k/a", b"3"))
        # Nothing guards these: the write without a reply may be the last to be applied. `Term` excludes that.
        assert (await client.range(b"k/a")).found[0].value in (b"2", b"3")


async def test_a_call_after_the_end_is_refused_as_one_without_a_reply(one_etcd):
    async with client_of(*one_etcd.endpoints) as client:
        await client.range(b"any")
    with pytest.raises(EtcdUnavailableError, match="closed its connections"):
        await client.range(b"any")
