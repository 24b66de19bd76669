"""Another etcd is not taken for the one that has the journal: real members, and controllers that stand for election."""

import asyncio
import re
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from heddle.controller.model.error import InputError, InUseError
from heddle.controller.runtime.journal.fitting import WHOLE
from heddle.controller.runtime.leadership import ClusterCounts, Leadership
from heddle.controller.runtime.ports import EPOCH_SHIFT
from heddle.controller.store.etcd import state_in_etcd
from heddle.controller.store.etcd.candidacy import OwnFile
from heddle.controller.store.etcd.client import EtcdClient, ForeignEtcdError, prefix_end
from heddle.controller.store.etcd.guard import Guard
from heddle.controller.store.etcd.identity import recognition
from heddle.controller.store.etcd.identity.judge import judged
from heddle.controller.store.etcd.identity.memory import Memory
from heddle.controller.store.etcd.identity.record import decoded, encoded
from heddle.controller.store.etcd.keys import Keys, delete, put
from heddle.controller.store.etcd.member import ClusterMember
from heddle.controller.store.etcd.proto import etcd_pb2 as pb
from heddle.controller.store.etcd.state_in_etcd import Place
from heddle.controller.store.etcd.term import Leader, take
from heddle.programs.console.options.state import state
from tests.support.clusters.etcd import PROGRAM, etcd

JOB = {("job", "kept"): b"1"}


@pytest.fixture(scope="session")
def other_etcd(tmp_path_factory):
    if shutil.which(PROGRAM) is None:
        pytest.skip("no etcd here: `scripts/setup all` installs it")
    with etcd(tmp_path_factory.mktemp("other")) as cluster:
        yield cluster


@pytest.fixture
def fabric(tmp_path):
    return str(tmp_path)


@asynccontextmanager
async def client_of(*endpoints):
    client = EtcdClient(endpoints)
    try:
        yield client
    finally:
        await client.close()


class Candidate:
    """A controller that stands for election."""

    def __init__(self, fabric, endpoints, memory, name="c0"):
        self.leadership = Leadership()
        own = OwnFile(key=WHOLE, follow=lambda values: None, why_unfit=lambda values, place: "")
        me = Leader(name=name, address=f"{name}:1")
        self.member = ClusterMember(
            EtcdClient(endpoints), fabric, me, self.leadership, own, memory, lease_s=2, counts=ClusterCounts()
        )

    async def store(self):
        return await self.member.won()

    async def refusal(self):
        """Stand for election until the etcd is refused; return why."""
        won = asyncio.create_task(self.member.won())
        while not self.leadership.why_unfit:
            assert not won.done()
            await asyncio.sleep(0.01)
        won.cancel()
        return self.leadership.why_unfit


@asynccontextmanager
async def candidate(*arguments, **more):
    found = Candidate(*arguments, **more)
    try:
        yield found
    finally:
        await found.member.close()


async def led(fabric, endpoints, memory):
    """Lead once and write a job; return the generation of the term."""
    async with candidate(fabric, endpoints, memory) as found:
        store = await found.store()
        await asyncio.to_thread(store.write, JOB)
        return await asyncio.to_thread(store.next_generation)


async def values_of(fabric, endpoints, memory):
    """Lead once; return the generation of the term, and the journal."""
    async with candidate(fabric, endpoints, memory) as found:
        store = await found.store()
        return await asyncio.to_thread(store.next_generation), dict(await asyncio.to_thread(store.read))


async def record_at(endpoint, fabric):
    async with client_of(endpoint) as client:
        (found,) = (await client.range(Keys(fabric).cluster)).found
        return decoded(found.value)


async def copied(fabric, source, target):
    """Copy all keys of a fabric to another etcd, as a snapshot that is restored there does."""
    root = Keys(fabric).root
    async with client_of(*source) as one, client_of(*target) as other:
        found = (await one.range(root, prefix_end(root))).found
        await other.txn(pb.TxnRequest(success=[put(each.key, each.value) for each in found]))


async def test_an_etcd_that_starts_empty_at_the_same_address_is_refused_until_the_operator_begins_anew(
    fabric, tmp_path
):
    folder, memory = tmp_path / "members", Memory()
    if shutil.which(PROGRAM) is None:
        pytest.skip("no etcd here: `scripts/setup all` installs it")
    with etcd(folder) as cluster:
        before = await led(fabric, cluster.endpoints, memory)
        record = await record_at(cluster.endpoints[0], fabric)
        cluster.kill(0)
        shutil.rmtree(folder / "m0")
        cluster.start(0)
        cluster.wait_for_leader()
        async with candidate(fabric, cluster.endpoints, memory) as found:
            why = await found.refusal()
            assert f"has no journal of fabric {fabric}" in why
            remedy = f"heddle state init --etcd {cluster.endpoints[0]} --fabric {fabric} --from {record.journal}"
            assert remedy in why
            with pytest.raises(InputError, match="restore a snapshot"):
                await asyncio.to_thread(state_in_etcd.adopt, Place(cluster.endpoints, fabric), 0)
            (command,) = re.findall(r"`heddle state (init [^`]*)`", why)
            done = await asyncio.to_thread(CliRunner().invoke, state, command.split())
            assert "an empty journal" in done.output
            store = await found.store()
            assert await asyncio.to_thread(store.read) == {}
            assert await asyncio.to_thread(store.next_generation) > before
            assert found.leadership.why_unfit == ""


async def test_a_copy_in_another_etcd_is_refused_and_keeps_its_jobs_when_it_is_adopted(fabric, one_etcd, other_etcd):
    memory = Memory()
    before = await led(fabric, one_etcd.endpoints, memory)
    await copied(fabric, one_etcd.endpoints, other_etcd.endpoints)
    old = await record_at(one_etcd.endpoints[0], fabric)
    async with candidate(fabric, other_etcd.endpoints, Memory()) as stranger:  # the keys say where they are from
        why = await stranger.refusal()
        assert f"its keys of {old.cluster:x}" in why
        assert f"heddle state adopt --etcd {other_etcd.endpoints[0]} --fabric {fabric}" in why
    journal, _ = await asyncio.to_thread(state_in_etcd.adopt, Place(other_etcd.endpoints, fabric), 0)
    assert (await record_at(other_etcd.endpoints[0], fabric)).before == (old.journal,)
    both = one_etcd.endpoints + other_etcd.endpoints
    generation, values = await values_of(fabric, both, memory)
    assert values == JOB
    assert generation > before
    async with candidate(fabric, one_etcd.endpoints, memory) as back:  # the former one is foreign from now on
        assert f"has journal {old.journal}" in (why := await back.refusal())
        assert journal in why


async def test_of_two_controllers_whose_endpoints_are_of_two_clusters_one_leads(fabric, one_etcd, other_etcd, caplog):
    one, other = one_etcd.endpoints, other_etcd.endpoints
    async with candidate(fabric, one + other, Memory()) as first:
        await first.store()
        async with candidate(fabric, other + one, Memory(), name="c1") as second:
            won = asyncio.create_task(second.store())
            while second.leadership.leader != "c0:1":
                await asyncio.sleep(0.01)
            assert not won.done()
            won.cancel()
    assert sum("is not used: it is of etcd cluster" in line for line in caplog.messages) == 2


async def test_a_member_that_is_of_another_cluster_now_is_passed_over(fabric, one_etcd, other_etcd, caplog):
    key = f"{fabric}/a".encode()
    async with client_of(*one_etcd.endpoints) as client:
        revision, _ = await client.range(key)
        header = (await client.txn(pb.TxnRequest(success=[put(key, b"ours")]))).header
    async with client_of(*other_etcd.endpoints, *one_etcd.endpoints) as client:
        await client.txn(pb.TxnRequest(success=[put(key, b"theirs")]))
        client.guard = Guard(header.cluster_id, revision)
        assert (await client.range(key)).found[0].value == b"ours"
    async with client_of(*other_etcd.endpoints) as client:
        client.guard = Guard(header.cluster_id, revision)
        with pytest.raises(ForeignEtcdError, match=f"the journal is in {header.cluster_id:x}"):
            await client.range(key, within_s=0.2)
    assert sum("its replies are not used" in line for line in caplog.messages) == 2


async def test_a_member_that_no_call_goes_to_is_named_where_it_is_of_another_cluster(
    fabric, one_etcd, other_etcd, caplog, monkeypatch
):
    await led(fabric, one_etcd.endpoints, Memory())
    monkeypatch.setattr(recognition, "WATCH_S", 0.01)
    one, other = one_etcd.endpoints, other_etcd.endpoints
    monkeypatch.setattr(recognition, "judged", lambda seen, *rest: judged(seen[:1], *rest))  # the other is away then
    async with candidate(fabric, one + other, Memory()) as leader:
        won = asyncio.create_task(leader.store())
        while not any(f"{other[0]} is not used: it is of etcd cluster" in line for line in caplog.messages):
            await asyncio.sleep(0.01)
        await won
    assert sum("is not used" in line for line in caplog.messages) == 1


async def test_a_term_neither_begins_nor_writes_in_an_etcd_that_has_another_journal(fabric, one_etcd, other_etcd):
    await led(fabric, one_etcd.endpoints, Memory())
    await led(fabric, other_etcd.endpoints, Memory())
    ours = await record_at(one_etcd.endpoints[0], fabric)
    async with client_of(*other_etcd.endpoints) as client:
        lease = await client.grant(60)
        with pytest.raises(ForeignEtcdError, match="another journal"):
            await take(client, Keys(fabric), lease.id, Leader(name="c", address=""), ours)
        assert (await client.range(Keys(fabric).leader)).found == []
        await client.revoke(lease.id)


async def test_a_leader_whose_journal_is_adopted_elsewhere_in_the_same_etcd_writes_no_more(fabric, one_etcd):
    memory = Memory()
    async with candidate(fabric, one_etcd.endpoints, memory) as leader:
        store = await leader.store()
        before = await asyncio.to_thread(store.next_generation)
        await asyncio.to_thread(state_in_etcd.adopt, Place(one_etcd.endpoints, fabric), 0)
        assert "its lease has ended" in await refused_write(leader, store)
    generation, _ = await values_of(fabric, one_etcd.endpoints, memory)
    assert generation >> EPOCH_SHIFT > before >> EPOCH_SHIFT


async def test_a_controller_that_waits_notices_that_another_journal_is_there_now(fabric, one_etcd):
    async with (
        candidate(fabric, one_etcd.endpoints, Memory()) as leader,
        candidate(fabric, one_etcd.endpoints, Memory(), name="c1") as waiting,
    ):
        await leader.store()
        won = asyncio.create_task(waiting.store())
        while waiting.leadership.leader != "c0:1":
            await asyncio.sleep(0.01)
        won.cancel()
        record = await record_at(one_etcd.endpoints[0], fabric)
        async with client_of(*one_etcd.endpoints) as client:
            other = encoded(replace(record, journal="0f"))
            await client.txn(pb.TxnRequest(success=[put(Keys(fabric).cluster, other)]))
        assert "has journal 0f" in await waiting.refusal()
        assert waiting.leadership.leader == ""


async def refused_write(leader, store):
    with pytest.raises(Exception, match="no longer leads"):
        await asyncio.to_thread(store.write, JOB)
    return await leader.leadership.over()


async def test_a_journal_of_an_earlier_version_gets_an_identity(fabric, one_etcd):
    await led(fabric, one_etcd.endpoints, Memory())
    keys = Keys(fabric)
    async with client_of(*one_etcd.endpoints) as client:
        await client.txn(pb.TxnRequest(success=[delete(keys.cluster)]))
    assert (await values_of(fabric, one_etcd.endpoints, Memory()))[1] == JOB
    assert (await record_at(one_etcd.endpoints[0], fabric)).before == ()


async def test_a_copy_of_a_file_goes_to_an_etcd_that_controllers_then_follow(fabric, one_etcd, other_etcd, tmp_path):
    memory, file = Memory(), tmp_path / "copy"
    await led(fabric, one_etcd.endpoints, memory)
    old = await record_at(one_etcd.endpoints[0], fabric)
    await asyncio.to_thread(state_in_etcd.backup, Place(one_etcd.endpoints, fabric), file)
    there = Place(other_etcd.endpoints, fabric)
    await asyncio.to_thread(state_in_etcd.restore, there, file, 0, [old.journal])
    with pytest.raises(InUseError):
        await asyncio.to_thread(state_in_etcd.init, there, 0)
    assert (await values_of(fabric, one_etcd.endpoints + other_etcd.endpoints, memory))[1] == JOB


def test_the_command_adopts_by_the_members_addresses_and_says_what_is_missing(one_etcd, other_etcd, fabric):
    cli = CliRunner()
    assert "--etcd is missing" in str(cli.invoke(state, ["adopt"]).exception)
    asyncio.run(led(fabric, one_etcd.endpoints, Memory()))
    done = cli.invoke(state, ["adopt", "--etcd", one_etcd.endpoints[0], "--fabric", fabric])
    assert "adopted, journal " in done.output
    both = ",".join(one_etcd.endpoints + other_etcd.endpoints)
    done = cli.invoke(state, ["adopt", "--etcd", both, "--fabric", fabric])
    assert "members of different etcd clusters" in str(done.exception)
