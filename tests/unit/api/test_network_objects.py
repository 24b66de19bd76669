"""A whole network file over gRPC: applied together or refused, and kept over a restart."""

import asyncio

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.unit.api.conftest import running
from tests.unit.api.test_gateway_service import attached, started
from tests.unit.api.test_load_balancers import vpc, web
from tests.unit.api.test_vpc_service import INVALID, blue, red, refusal

RULE = pb.BorderRule(
    allow=True, vpc="red", network="storage", remote_cidr="10.9.0.0/16", protocol="any", port_max=65_535
)
PEERING = pb.Peering(vpc_a="blue", vpc_b="red")
WEIGHTLESS = web(backends=[pb.Backend(ip="10.1.0.6", weight=0), pb.Backend(ip="10.1.0.7")])


def objects(*vpcs, **more):
    return pb.NetworkObjects(vpcs=vpcs, **more)


async def everything(vpcs):
    return (
        await vpcs.ListVpcs(pb.ListVpcsRequest()),
        await vpcs.ListLoadBalancers(pb.ListVpcsRequest()),
        await vpcs.GetBorder(pb.GetBorderRequest()),
    )


async def test_all_objects_of_a_file_are_applied_as_one_generation_with_their_defaults():
    async with started() as controller:
        gateway = controller.attach("gw1", "10.0.0.9")
        await controller.status(attached("gw1"))
        whole = objects(
            vpc(floating_ips=[pb.FloatingIp(public_ip="203.0.113.44", endpoint_ip="10.1.0.100")]), red(),
            peerings=[pb.Peering(vpc_a="red", vpc_b="blue")], load_balancers=[WEIGHTLESS],
            border=pb.Border(rules=[RULE]),
        )  # fmt: skip
        reply = await controller.vpcs.ApplyNetwork(whole)
        assert [each.id for each in reply.applied.vpcs] == ["blue", "red"]
        assert list(reply.applied.peerings) == [PEERING]
        assert [(end.port, end.weight) for end in reply.applied.load_balancers[0].backends] == [(80, 0), (80, 1)]
        assert list(reply.applied.border.rules) == [RULE]
        assert not reply.away
        assert len(gateway.messages) == 1
        balancer = controller.attach("lb1", "10.0.0.8", kind="balancer")
        await balancer.until(lambda s: s.replica.desired)
        assert [end.weight for end in balancer.replica.desired.load_balancers[0].back_ends] == [0, 1]


async def test_a_swap_of_vnis_is_sent_to_gateways_whole():
    async with started() as controller:
        gateway = controller.attach("gw1", "10.0.0.9")
        await controller.status(attached("gw1"))
        await controller.vpcs.ApplyNetwork(objects(blue(), red()))
        await controller.vpcs.ApplyNetwork(objects(blue(vni=200), pb.Vpc(id="red", vni=100)))
        assert [[each.vni for each in message.vpcs] for message in gateway.messages] == [[100, 200], [200, 100]]


CHANGED = blue(tenant="new")
REFUSED = [
    (objects(CHANGED, pb.Vpc(id="red", vni=100)), "vpc red: vni: 100 is used by vpc blue already"),
    (objects(CHANGED, blue()), "vpc blue: id: used twice"),
    (objects(CHANGED, peerings=[pb.Peering(vpc_a="red", vpc_b="green")]), "there is no vpc 'green'"),
    (objects(CHANGED, border=pb.Border(rules=[pb.BorderRule(vpc="green")])), "border: rules[0]"),
    (objects(CHANGED, load_balancers=[web(vpc_id="red")]), "no endpoint of red"),
    (objects(CHANGED, pb.Vpc(id="green", vni=1 << 24)), "vpc green: vni: 16777216 is not within"),
    (objects(CHANGED, pb.Vpc(id="x", vni=7, subnets=[pb.Subnet(cidr="10.0.0.0")])), "is no prefix"),
]


async def test_a_file_with_one_wrong_object_is_refused_and_changes_nothing():
    async with started() as controller:
        await controller.vpcs.ApplyNetwork(objects(blue(), red(), border=pb.Border(rules=[RULE])))
        before = await everything(controller.vpcs)
        generation = (await controller.status()).generation
        for wrong, words in REFUSED:
            code, details = await refusal(controller.vpcs.ApplyNetwork(wrong))
            assert (code, words in details) == (INVALID, True), details
            assert await everything(controller.vpcs) == before
        assert (await controller.status()).generation == generation


async def test_a_host_that_is_away_is_named_in_the_reply():
    async with started() as controller:
        host = controller.attach("h1", "10.0.0.1", "host")
        await controller.status(attached("h1"))
        await controller.vpcs.ApplyNetwork(objects(blue()))
        await host.close()
        await controller.status(attached())
        reply = await controller.vpcs.ApplyNetwork(objects(blue(vni=101), red()))
        assert list(reply.away) == [pb.GatewayAddress(gateway_id="h1", vtep_ip="10.0.0.1")]
        (status,) = (await controller.status()).gateways
        assert (status.hello.gateway_id, status.hello.kind, status.attached) == ("h1", "host", False)
        assert not (await controller.vpcs.ApplyNetwork(objects(pb.Vpc(id="red", vni=200, tenant="new")))).away


async def test_a_file_survives_a_restart_whole(tmp_path):
    async with running(state=str(tmp_path)) as found:
        vpcs = rpc.VpcServiceStub(found.channel)
        await vpcs.ApplyNetwork(objects(vpc(), red(), peerings=[PEERING], load_balancers=[WEIGHTLESS]))
        before = await everything(vpcs)
    async with running(state=str(tmp_path)) as found:
        assert await everything(rpc.VpcServiceStub(found.channel)) == before


async def test_concurrent_files_that_conflict_are_accepted_one_whole(tmp_path):
    async with started() as controller:
        files = [objects(pb.Vpc(id=f"a{i}", vni=10 + i), pb.Vpc(id=f"b{i}", vni=99)) for i in range(8)]
        outcomes = await asyncio.gather(*map(controller.vpcs.ApplyNetwork, files), return_exceptions=True)
        (won,) = [i for i, each in enumerate(outcomes) if isinstance(each, pb.ApplyNetworkReply)]
        listed = (await controller.vpcs.ListVpcs(pb.ListVpcsRequest())).vpcs
        assert {each.id for each in listed} == {f"a{won}", f"b{won}"}
