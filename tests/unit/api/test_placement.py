import asyncio

import grpc
import pytest

from heddle.controller.api.translate import placements_to, request_to
from heddle.controller.model.placement import Placement
from heddle.v1 import heddle_pb2 as pb
from tests.unit.brain.driver import shift_job

RING = pb.Collective(kind=pb.Collective.RING_ALL_REDUCE, bytes=1000)


def wanted(ranks=2, **more) -> pb.SuggestPlacementRequest:
    return pb.SuggestPlacementRequest(ranks=ranks, collectives=[RING], **more)


async def test_places_come_best_first_with_what_they_cost(controller):
    reply = await controller.jobs.SuggestPlacement(wanted(3, max_suggestions=2))
    best = reply.placements[0]
    assert len(reply.placements) == 2
    assert (list(best.nics), best.leaves_used) == (["h1-n0", "h2-n0", "h3-n0"], 2)
    assert best.max_link_utilisation == best.own_max_link_utilisation == 1.0
    assert best.reason.startswith("3 ranks on 3 hosts of 2 leaves, the fewest that hold them")


async def test_a_suggested_place_can_be_submitted_and_costs_what_was_predicted(controller):
    await controller.jobs.SubmitJob(request_to(shift_job("a", ranks=4)))
    best = (await controller.jobs.SuggestPlacement(wanted(3))).placements[0]
    plan = await controller.jobs.SubmitJob(pb.SubmitJobRequest(job_id="b", ranks=best.nics, collectives=[RING]))
    assert plan.state == "running"
    assert plan.certificate.max_link_utilisation == best.max_link_utilisation
    assert plan.certificate.own_max_link_utilisation == best.own_max_link_utilisation


async def test_a_suggestion_reserves_nothing(controller):
    first = await controller.jobs.SuggestPlacement(wanted())
    assert await controller.jobs.SuggestPlacement(wanted()) == first
    assert not (await controller.jobs.ListJobs(pb.ListJobsRequest())).jobs


async def test_many_requests_at_once_all_get_the_same_reply(controller):
    replies = await asyncio.gather(*(controller.jobs.SuggestPlacement(wanted()) for _ in range(20)))
    assert all(reply == replies[0] for reply in replies)


WRONG = {
    "no ranks": (wanted(0), grpc.StatusCode.INVALID_ARGUMENT, "ranks: "),
    "an unknown kind": (
        pb.SuggestPlacementRequest(ranks=2, collectives=[pb.Collective(bytes=1)]),
        grpc.StatusCode.INVALID_ARGUMENT,
        "collectives[0].kind: ",
    ),
    "no bytes": (
        pb.SuggestPlacementRequest(ranks=2, collectives=[pb.Collective(kind=pb.Collective.ALL_TO_ALL)]),
        grpc.StatusCode.INVALID_ARGUMENT,
        "collectives[0].bytes: ",
    ),
    "too many ranks": (wanted(9), grpc.StatusCode.FAILED_PRECONDITION, "9 ranks asked for, 8 free"),
    "a billion ranks": (
        wanted(4 * 10**9),
        grpc.StatusCode.INVALID_ARGUMENT,
        "ranks: must be at most 1,000,000",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_request_without_a_place_gets_the_reason(controller, name):
    request, code, text = WRONG[name]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await controller.jobs.SuggestPlacement(request)
    assert caught.value.code() is code
    assert caught.value.details().startswith(text)


def test_places_that_a_message_has_no_room_for_are_left_out_but_for_the_best():
    place = Placement(
        nics=("h1-n0",) * 100, max_link_utilisation=0.0, own_max_link_utilisation=0.0, leaves_used=1, reason="why"
    )
    assert len(placements_to([place] * 3).placements) == 3
    assert len(placements_to([place] * 3, size_bytes=1500).placements) == 2
    assert len(placements_to([place] * 3, size_bytes=10).placements) == 1
