"""VpcService over gRPC: applied networks are listed, invalid ones refused, none applied in part."""

import asyncio

import grpc
import pytest

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.unit.api.conftest import running

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def blue(**fields):
    return pb.Vpc(
        **{
            "id": "blue",
            "tenant": "t1",
            "vni": 100,
            "subnets": [pb.Subnet(cidr="10.1.0.0/24", gateway_ip="10.1.0.1")],
            "endpoints": [pb.Endpoint(ip="10.1.0.5", mac="02:00:00:00:00:05", vtep_ip="10.0.0.1")],
            "network": "business",
            **fields,
        }
    )


def red(cidr="10.2.0.0/24", **fields):
    gateway = cidr.replace("0/24", "1")
    return pb.Vpc(id="red", tenant="t2", vni=200, subnets=[pb.Subnet(cidr=cidr, gateway_ip=gateway)], **fields)


@pytest.fixture
async def vpcs():
    async with running() as controller:
        yield rpc.VpcServiceStub(controller.channel)


async def refusal(call) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


async def listed(vpcs, tenant=""):
    return await vpcs.ListVpcs(pb.ListVpcsRequest(tenant=tenant))


async def test_a_vpc_is_applied_listed_by_tenant_replaced_and_deleted(vpcs):
    assert await vpcs.ApplyVpc(blue()) == blue()
    await vpcs.ApplyVpc(red())
    assert [vpc.id for vpc in (await listed(vpcs)).vpcs] == ["blue", "red"]
    assert [vpc.id for vpc in (await listed(vpcs, "t2")).vpcs] == ["red"]
    await vpcs.ApplyVpc(blue(vni=101))
    assert [vpc.vni for vpc in (await listed(vpcs)).vpcs] == [101, 200]
    await vpcs.DeleteVpc(pb.DeleteVpcRequest(id="blue"))
    assert [vpc.id for vpc in (await listed(vpcs)).vpcs] == ["red"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (blue(id="green"), "vpc green: vni: 100 is used by vpc blue already"),
        (blue(vni=0), "vpc blue: vni: 0 is not within"),
        (
            blue(endpoints=[pb.Endpoint(ip="10.9.0.5", mac="02:00:00:00:00:05", vtep_ip="10.0.0.1")]),
            "vpc blue: endpoints[0].ip: 10.9.0.5 is in no subnet",
        ),
        (
            blue(endpoints=[pb.Endpoint(ip="10.1.0.5", mac="02:00:00:00:00:05", vtep_ip="203.0.113.9")]),
            "vpc blue: endpoints[0].vtep_ip: 203.0.113.9 is no VTEP",
        ),
        (blue(subnets=[pb.Subnet(cidr="10.1.0.5/24", gateway_ip="10.1.0.1")]), "10.1.0.0/24 is the prefix"),
        (blue(subnets=[pb.Subnet(cidr="10.2.0.0/16", gateway_ip="10.2.0.1")], endpoints=[]), "overlaps"),
    ],
)
async def test_an_invalid_message_is_refused_and_changes_nothing(vpcs, wrong, words):
    await vpcs.ApplyVpc(blue())
    await vpcs.ApplyVpc(red())
    await vpcs.ApplyPeering(pb.Peering(vpc_a="blue", vpc_b="red"))
    before = await listed(vpcs)
    code, details = await refusal(vpcs.ApplyVpc(wrong))
    assert (code, words in details) == (INVALID, True), details
    assert await listed(vpcs) == before


async def test_vpcs_with_overlapping_prefixes_are_not_peered(vpcs):
    await vpcs.ApplyVpc(blue())
    await vpcs.ApplyVpc(red("10.1.0.0/24"))
    code, details = await refusal(vpcs.ApplyPeering(pb.Peering(vpc_a="red", vpc_b="blue")))
    assert code is INVALID
    assert "peering blue with red: " in details
    assert "overlaps" in details
    assert not (await listed(vpcs)).peerings


async def test_a_peered_vpc_cannot_be_deleted_before_its_peering(vpcs):
    await vpcs.ApplyVpc(blue())
    await vpcs.ApplyVpc(red())
    peering = pb.Peering(vpc_a="red", vpc_b="blue")
    assert await vpcs.ApplyPeering(peering) == peering
    assert list((await listed(vpcs, "t1")).peerings) == [pb.Peering(vpc_a="blue", vpc_b="red")]
    code, details = await refusal(vpcs.DeleteVpc(pb.DeleteVpcRequest(id="blue")))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "red" in details
    await vpcs.DeletePeering(pb.Peering(vpc_a="blue", vpc_b="red"))
    await vpcs.DeleteVpc(pb.DeleteVpcRequest(id="blue"))


async def test_an_unknown_vpc_is_not_found(vpcs):
    assert (await refusal(vpcs.DeleteVpc(pb.DeleteVpcRequest(id="x"))))[0] is grpc.StatusCode.NOT_FOUND
    assert (await refusal(vpcs.DeletePeering(pb.Peering(vpc_a="x", vpc_b="y"))))[0] is grpc.StatusCode.NOT_FOUND
    assert (await refusal(vpcs.ApplyPeering(pb.Peering(vpc_a="x", vpc_b="y"))))[0] is INVALID


async def test_border_rules_are_replaced_as_a_whole_and_name_vpcs_that_are_there(vpcs):
    rule = pb.BorderRule(
        allow=True, vpc="*", network="storage", remote_cidr="10.9.0.0/16", protocol="tcp", port_min=80, port_max=80
    )
    assert await vpcs.ApplyBorder(pb.Border(rules=[rule])) == pb.Border(rules=[rule])
    unknown = pb.BorderRule(allow=True, vpc="blue", network="storage", remote_cidr="10.9.0.0/16")
    code, details = await refusal(vpcs.ApplyBorder(pb.Border(rules=[rule, unknown])))
    assert (code, "rules[1].vpc" in details) == (INVALID, True)
    assert await vpcs.GetBorder(pb.GetBorderRequest()) == pb.Border(rules=[rule])
    await vpcs.ApplyVpc(blue())
    await vpcs.ApplyBorder(pb.Border(rules=[unknown]))
    assert (await refusal(vpcs.DeleteVpc(pb.DeleteVpcRequest(id="blue"))))[0] is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_configured_prefix_of_vteps_is_known():
    async with running(vteps=["203.0.113.0/24"]) as controller:
        endpoint = pb.Endpoint(ip="10.1.0.5", mac="02:00:00:00:00:05", vtep_ip="203.0.113.9")
        vpcs = rpc.VpcServiceStub(controller.channel)
        await vpcs.ApplyVpc(blue(endpoints=[endpoint]))
        (kept,) = (await vpcs.ListVpcs(pb.ListVpcsRequest())).vpcs
        assert [each.vtep_ip for each in kept.endpoints] == ["203.0.113.9"]


async def test_of_concurrent_vpcs_with_one_vni_one_is_accepted(vpcs):
    calls = [vpcs.ApplyVpc(pb.Vpc(id=f"v{i}", vni=5)) for i in range(20)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(outcome, pb.Vpc) for outcome in outcomes) == 1
    assert [vpc.vni for vpc in (await listed(vpcs)).vpcs] == [5]
