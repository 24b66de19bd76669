import asyncio

import grpc
import pytest

from heddle.controller.api.services.rendezvous import Met, Rendezvous
from heddle.controller.model.error import AlreadyExistsError, BudgetExceededError, InputError
from heddle.v1 import heddle_pb2 as pb


async def begun(coroutine):
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    return task


async def test_all_nodes_get_the_nics_of_all_in_the_order_of_their_ranks_when_the_last_arrives():
    meeting = Rendezvous()
    second = await begun(meeting.join("j", 1, 3, ("c",)))
    third = await begun(meeting.join("j", 2, 3, ("d", "e")))
    assert not second.done()
    assert await meeting.join("j", 0, 3, ("a", "b")) == Met(("a", "b", "c", "d", "e"), 0, last_arrival=True)
    assert await second == Met(("a", "b", "c", "d", "e"), 2, last_arrival=False)
    assert await third == Met(("a", "b", "c", "d", "e"), 3, last_arrival=False)


async def test_the_last_of_the_nodes_to_leave_is_named_once():
    meeting = Rendezvous()
    first = await begun(meeting.join("j", 0, 2, ("a",)))
    assert meeting.leave("j", 0) is False
    await meeting.join("j", 1, 2, ("b",))
    await first
    assert [meeting.leave("j", rank) for rank in (1, 1, 2, 0, 0)] == [False, False, False, True, False]


async def test_a_node_whose_call_ends_is_withdrawn_and_may_come_back_with_other_nics():
    meeting = Rendezvous()
    call = await begun(meeting.join("j", 0, 2, ("a",)))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    other = await begun(meeting.join("j", 0, 2, ("x",)))
    await meeting.join("j", 1, 2, ("b",))
    assert (await other).nics == ("x", "b")


async def test_a_node_that_calls_again_before_its_first_call_ends_stays_registered():
    meeting = Rendezvous()
    lost = await begun(meeting.join("j", 0, 2, ("a",)))
    again = await begun(meeting.join("j", 0, 2, ("a",)))
    lost.cancel()
    await asyncio.gather(lost, return_exceptions=True)
    await meeting.join("j", 1, 2, ("b",))
    assert (await again).nics == ("a", "b")


async def test_a_new_run_under_the_id_of_one_that_was_killed_meets_anew():
    meeting = Rendezvous()
    for nics in ((("a",), ("b",)), (("c",), ("d",))):
        first = await begun(meeting.join("j", 0, 2, nics[0]))
        assert (await meeting.join("j", 1, 2, nics[1])).nics == (*nics[0], *nics[1])
        await first


async def test_nodes_that_contradict_each_other_are_refused():
    meeting = Rendezvous()
    waiting = await begun(meeting.join("j", 0, 2, ("a",)))
    with pytest.raises(AlreadyExistsError, match="another node has rank 0"):
        await meeting.join("j", 0, 2, ("b",))
    with pytest.raises(InputError, match="node_count: 3"):
        await meeting.join("j", 1, 3, ("b",))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize(
    ("job_id", "rank", "count", "nics"),
    [("", 0, 1, ("a",)), ("j", 1, 1, ("a",)), ("j", 0, 0, ("a",)), ("j", 0, 1, ()), ("j", 0, 65_537, ("a",))],
    ids=["id", "rank", "count", "nics", "many"],
)
async def test_a_malformed_registration_is_refused(job_id, rank, count, nics):
    with pytest.raises(InputError):
        await Rendezvous().join(job_id, rank, count, nics)


async def test_jobs_that_met_make_room_for_nodes_that_wait_and_these_have_a_limit():
    meeting = Rendezvous(max_ranks=3)
    await meeting.join("done", 0, 1, ("a", "b"))
    waiting = await begun(meeting.join("j", 0, 2, ("c", "d")))
    assert meeting.leave("done", 0) is False  # forgotten
    with pytest.raises(BudgetExceededError):
        await meeting.join("k", 0, 2, ("e", "f"))
    assert (await meeting.join("j", 1, 2, ("g",))).nics == ("c", "d", "g")
    await waiting


async def test_a_node_that_names_a_nic_of_another_fabric_is_refused(controller):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await controller.jobs.JoinJob(pb.JoinJobRequest(job_id="j", node_count=1, nics=["h1-n0", "nic of others"]))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "'nic of others' is no NIC of this fabric" in caught.value.details()
