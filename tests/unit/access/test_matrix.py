"""Every method of every service that is served, for every role: allowed and denied as the table says."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from heddle.controller.access.audit import Audit
from heddle.controller.access.call import Call
from heddle.controller.access.guard import Access, Guard
from heddle.controller.access.policy import Policy, TenantPolicy
from heddle.controller.access.table import ROWS
from heddle.controller.api.decoding import Decoding
from heddle.controller.api.services import fabric, gateways, jobs, probes, telemetry, vpc
from heddle.controller.brain.begin import begin
from heddle.controller.brain.settings import Settings
from heddle.controller.runtime.owners import Owners
from heddle.controller.runtime.telemetry import Telemetry
from heddle.foundation.identity import Role
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.certified_callers import Certified
from tests.support.controllers.bare_loop import bare_loop
from tests.unit.api.conftest import running
from tests.unit.brain.driver import small_fabric

DENIED, OK = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.OK
SERVICES = [
    service for module in (pb, health_pb2, reflection_pb2) for service in module.DESCRIPTOR.services_by_name.values()
]
TENANT, READER, OPERATOR, VIEWER = "operator tenant", "operator tenant viewer", "operator", "operator viewer"
WANTED = {
    "/heddle.v1.JobService/SubmitJob": (TENANT, True, "job_id"),
    "/heddle.v1.JobService/PreviewJob": (TENANT, False, "job_id"),
    "/heddle.v1.JobService/RenewJob": (TENANT, True, "job_id"),
    "/heddle.v1.JobService/ReleaseJob": (TENANT, True, "job_id"),
    "/heddle.v1.JobService/GetJob": (READER, False, "job_id"),
    "/heddle.v1.JobService/ListJobs": (READER, False, ""),
    "/heddle.v1.JobService/WatchJob": (READER, False, "job_id"),
    "/heddle.v1.JobService/StreamFlows": (READER, False, "job_id"),
    "/heddle.v1.JobService/ReportFlows": ("operator agent", True, "host"),
    "/heddle.v1.JobService/JoinJob": (TENANT, True, "job_id"),
    "/heddle.v1.JobService/ReportPairs": ("operator agent", True, "job_id"),
    "/heddle.v1.JobService/GetPairs": ("operator", False, "job_id"),
    "/heddle.v1.JobService/LeaveJob": (TENANT, True, "job_id"),
    "/heddle.v1.JobService/SuggestPlacement": (TENANT, False, ""),
    "/heddle.v1.FabricService/GetTopology": (READER, False, ""),
    "/heddle.v1.FabricService/WatchTopology": (READER, False, ""),
    "/heddle.v1.FabricService/Drain": (OPERATOR, True, "target"),
    "/heddle.v1.FabricService/ApplyFabric": (OPERATOR, True, "name"),
    "/heddle.v1.FabricService/Explain": (READER, False, ""),
    "/heddle.v1.TelemetryService/WatchPorts": (READER, False, ""),
    "/heddle.v1.TelemetryService/ListCongestion": (READER, False, ""),
    "/heddle.v1.TelemetryService/WatchEvents": (READER, False, ""),
    "/heddle.v1.VpcService/ApplyVpc": (TENANT, True, "id"),
    "/heddle.v1.VpcService/DeleteVpc": (TENANT, True, "id"),
    "/heddle.v1.VpcService/ListVpcs": (READER, False, ""),
    "/heddle.v1.VpcService/ApplyPeering": (TENANT, True, "vpc_a vpc_b"),
    "/heddle.v1.VpcService/DeletePeering": (TENANT, True, "vpc_a vpc_b"),
    "/heddle.v1.VpcService/ApplyLoadBalancer": (TENANT, True, "id"),
    "/heddle.v1.VpcService/DeleteLoadBalancer": (TENANT, True, "id"),
    "/heddle.v1.VpcService/ListLoadBalancers": (READER, False, ""),
    "/heddle.v1.VpcService/ApplyBorder": (OPERATOR, True, ""),
    "/heddle.v1.VpcService/ApplyNetwork": (TENANT, True, ""),
    "/heddle.v1.VpcService/GetBorder": (VIEWER, False, ""),
    "/heddle.v1.VpcService/DropUnknownVpcs": (OPERATOR, True, ""),
    "/heddle.v1.GatewayService/Attach": ("operator gateway agent", True, "hello.gateway_id"),
    "/heddle.v1.GatewayService/ListGateways": (VIEWER, False, ""),
    "/heddle.v1.GatewayService/ForgetGateway": (OPERATOR, True, "gateway_id"),
    "/heddle.v1.GatewayService/ReadTables": (OPERATOR, False, "gateway_id"),
    "/heddle.v1.ProbeService/Attach": ("operator agent", True, "hello.host"),
    "/grpc.health.v1.Health/Check": ("operator tenant viewer gateway agent controller", False, ""),
    "/grpc.health.v1.Health/List": ("operator tenant viewer gateway agent controller", False, ""),
    "/grpc.health.v1.Health/Watch": ("operator tenant viewer gateway agent controller", False, ""),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": (READER, False, ""),
}
"""Of every method, written independently of the proto: its roles, whether it is audited, and what names its object."""
METHODS = {f"/{service.full_name}/{method.name}": method for service in SERVICES for method in service.methods}


def handlers():
    """Return handlers that reply at once, in each shape of method."""

    async def unary(request, context):
        return b""

    async def stream(request, context):
        yield b""

    make = {
        (False, False): lambda: grpc.unary_unary_rpc_method_handler(unary),
        (False, True): lambda: grpc.unary_stream_rpc_method_handler(stream),
        (True, False): lambda: grpc.stream_unary_rpc_method_handler(unary),
        (True, True): lambda: grpc.stream_stream_rpc_method_handler(stream),
    }
    return {
        service.full_name: {
            method.name: make[method.client_streaming, method.server_streaming]() for method in service.methods
        }
        for service in SERVICES
    }


@pytest.mark.parametrize(
    "path", sorted(path for path, row in ROWS.items() if row.mutates and not METHODS[path].client_streaming)
)
def test_the_audit_log_names_what_a_call_changes(path):
    """A stream is left out: its service names the host or gateway when that says who it is."""
    anybody: Any = None
    request = GetMessageClass(METHODS[path].input_type)()
    call = Call(caller=anybody, scope=anybody, loop=anybody, owners=anybody, object=ROWS[path].object)
    texts = [field.name for field in request.DESCRIPTOR.fields if field.type == field.TYPE_STRING]
    for name in texts:
        if not request.DESCRIPTOR.fields_by_name[name].is_repeated:
            setattr(request, name, f"the {name}")
    call.concerns(request)
    # A border is all rules at once and has no name; a network file has many, which its service names.
    assert call.subject if texts else path.endswith(("ApplyBorder", "ApplyNetwork", "DropUnknownVpcs"))


async def silence():
    """Send nothing: a message that meets the end of its stream may turn its status into INTERNAL."""
    await asyncio.Event().wait()
    yield b""


async def status_of(channel, path):
    method = METHODS[path]
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    request = silence() if method.client_streaming else b""
    call = getattr(channel, kind)(path)(request, timeout=30)
    try:
        if method.server_streaming:
            async for _ in call:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return OK


def test_every_method_has_a_row_and_every_row_a_method():
    assert set(ROWS) == set(METHODS)


def test_the_options_of_the_contract_are_the_roles_changes_and_objects_of_this_table():
    assert {path: (set(row.roles), row.mutates, " ".join(row.object)) for path, row in ROWS.items()} == {
        path: (set(map(Role, roles.split())), mutates, names) for path, (roles, mutates, names) in WANTED.items()
    }


@pytest.mark.parametrize("path", [path for path, row in ROWS.items() if row.object])
def test_what_names_the_object_of_a_call_is_a_text_in_its_request(path):
    for name in ROWS[path].object:
        message = METHODS[path].input_type
        *inside, last = name.split(".")
        for part in inside:
            message = message.fields_by_name[part].message_type
        field = message.fields_by_name[last]
        assert (field.type, field.is_repeated) == (field.TYPE_STRING, False)


async def test_every_role_may_call_what_its_column_says(tmp_path):
    policy = Policy(tenants={"red": TenantPolicy(nics=None)})
    fabric = small_fabric()
    loop = bare_loop(begin(fabric, Settings(), 0), ThreadPlanner(fabric), ThreadCompiler(fabric))
    access = Access(loop, Owners(), Audit(Telemetry(), lambda: 0), policy)
    server = grpc.aio.server(interceptors=[Guard(access), Decoding()])
    for name, methods in handlers().items():
        server.add_registered_method_handlers(name, methods)
    callers = Certified(tmp_path)
    callers.port = server.add_secure_port("127.0.0.1:0", callers.server_credentials())
    await server.start()
    found, wanted = {}, {}
    try:
        for role in Role:
            channel = callers.channel(role, "red")
            codes = await asyncio.gather(*(status_of(channel, path) for path in METHODS))
            found |= {(role.value, path): code for path, code in zip(METHODS, codes, strict=True)}
            wanted |= {(role.value, path): OK if role in ROWS[path].roles else DENIED for path in METHODS}
        stranger = callers.channel(Role.TENANT, "unknown")
        assert await status_of(stranger, "/heddle.v1.JobService/ListJobs") is DENIED
    finally:
        await callers.close()
        await server.stop(0)
    assert found == wanted


async def test_every_service_of_a_running_controller_is_in_the_table():
    async with running() as controller:
        query = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(controller.channel).ServerReflectionInfo(iter([query]))
        reply = await call.read()
    assert {service.name for service in reply.list_services_response.service} == {each.full_name for each in SERVICES}


async def test_a_reflection_client_gets_every_file_that_the_options_need():
    async with running() as controller:
        query = reflection_pb2.ServerReflectionRequest(file_containing_symbol="heddle.v1.JobService")
        call = reflection_pb2_grpc.ServerReflectionStub(controller.channel).ServerReflectionInfo(iter([query]))
        reply = await call.read()
    files = map(FileDescriptorProto.FromString, reply.file_descriptor_response.file_descriptor_proto)
    of_client = DescriptorPool()
    for file in sorted(files, key=lambda file: len(file.dependency)):
        of_client.Add(file)
    submit = of_client.FindMethodByName("heddle.v1.JobService.SubmitJob")
    assert "mutates: true" in str(submit.GetOptions())


@pytest.mark.parametrize("module", [fabric, gateways, jobs, probes, telemetry, vpc])
def test_every_method_of_a_service_has_a_handler(module):
    (service,) = (vars(module)[name] for name in pb.DESCRIPTOR.services_by_name if name in vars(module))
    methods = pb.DESCRIPTOR.services_by_name[service.__name__].methods
    assert {method.name for method in methods} <= vars(service).keys()


@pytest.mark.parametrize("role", [Role.SWITCH, Role.SERVICE])
def test_switches_and_services_call_nothing(role):
    assert not [path for path, row in ROWS.items() if role in row.roles]
