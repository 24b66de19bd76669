"""The table of every method of every service: which roles may call it, and whether it changes anything.

What is not in the table is denied. A tenant's calls concern its own objects, within its quota (`scope.py`); a gateway
or agent speaks for itself alone.
"""

from collections.abc import Mapping
from typing import NamedTuple

from heddle.foundation.identity import Role


class Row(NamedTuple):
    """The roles that may call a method; `mutates` is whether each call is audited."""

    roles: frozenset[Role]
    mutates: bool = False


_OPERATOR = frozenset({Role.OPERATOR})
_TENANT = _OPERATOR | {Role.TENANT}
_VIEWER = _OPERATOR | {Role.VIEWER}
_READER = _TENANT | {Role.VIEWER}
_ANY = _READER | {Role.AGENT, Role.GATEWAY, Role.CONTROLLER}

_JOBS, _FABRIC, _TELEMETRY = "/heddle.v1.JobService/", "/heddle.v1.FabricService/", "/heddle.v1.TelemetryService/"
_VPCS, _GATEWAYS, _PROBES = "/heddle.v1.VpcService/", "/heddle.v1.GatewayService/", "/heddle.v1.ProbeService/"

ROWS: Mapping[str, Row] = {
    f"{_JOBS}SubmitJob": Row(_TENANT, mutates=True),
    f"{_JOBS}PreviewJob": Row(_TENANT),
    f"{_JOBS}RenewJob": Row(_TENANT, mutates=True),
    f"{_JOBS}ReleaseJob": Row(_TENANT, mutates=True),
    f"{_JOBS}GetJob": Row(_READER),
    f"{_JOBS}ListJobs": Row(_READER),
    f"{_JOBS}WatchJob": Row(_READER),
    f"{_JOBS}StreamFlows": Row(_READER),
    f"{_JOBS}ReportFlows": Row(_OPERATOR | {Role.AGENT}, mutates=True),
    f"{_JOBS}JoinJob": Row(_TENANT, mutates=True),
    f"{_JOBS}LeaveJob": Row(_TENANT, mutates=True),
    f"{_JOBS}SuggestPlacement": Row(_TENANT),
    f"{_FABRIC}GetTopology": Row(_READER),
    f"{_FABRIC}WatchTopology": Row(_READER),
    f"{_FABRIC}Drain": Row(_OPERATOR, mutates=True),
    f"{_FABRIC}Explain": Row(_READER),
    f"{_TELEMETRY}WatchPorts": Row(_READER),
    f"{_TELEMETRY}ListCongestion": Row(_READER),
    f"{_TELEMETRY}WatchEvents": Row(_READER),
    f"{_VPCS}ApplyVpc": Row(_TENANT, mutates=True),
    f"{_VPCS}DeleteVpc": Row(_TENANT, mutates=True),
    f"{_VPCS}ListVpcs": Row(_READER),
    f"{_VPCS}ApplyPeering": Row(_TENANT, mutates=True),
    f"{_VPCS}DeletePeering": Row(_TENANT, mutates=True),
    f"{_VPCS}ApplyLoadBalancer": Row(_TENANT, mutates=True),
    f"{_VPCS}DeleteLoadBalancer": Row(_TENANT, mutates=True),
    f"{_VPCS}ListLoadBalancers": Row(_READER),
    f"{_VPCS}ApplyBorder": Row(_OPERATOR, mutates=True),
    f"{_VPCS}GetBorder": Row(_VIEWER),
    f"{_GATEWAYS}Attach": Row(_OPERATOR | {Role.GATEWAY, Role.AGENT}, mutates=True),
    f"{_GATEWAYS}ListGateways": Row(_VIEWER),
    f"{_GATEWAYS}ForgetGateway": Row(_OPERATOR, mutates=True),
    f"{_GATEWAYS}ReadTables": Row(_OPERATOR),
    f"{_PROBES}Attach": Row(_OPERATOR | {Role.AGENT}, mutates=True),
    "/grpc.health.v1.Health/Check": Row(_ANY),
    "/grpc.health.v1.Health/List": Row(_ANY),
    "/grpc.health.v1.Health/Watch": Row(_ANY),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Row(_READER),
}

_DENIED = Row(frozenset())


def row_of(method: str) -> Row:
    """Return the row of a method; one that no role may call where it has none."""
    return ROWS.get(method, _DENIED)
