from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Steering(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEERING_UNSPECIFIED: _ClassVar[Steering]
    SOURCE_PORT: _ClassVar[Steering]
    PIN: _ClassVar[Steering]

class Incast(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INCAST_UNSPECIFIED: _ClassVar[Incast]
    INCAST_RATES: _ClassVar[Incast]
    INCAST_WINDOWS: _ClassVar[Incast]
STEERING_UNSPECIFIED: Steering
SOURCE_PORT: Steering
PIN: Steering
INCAST_UNSPECIFIED: Incast
INCAST_RATES: Incast
INCAST_WINDOWS: Incast
ACCESS_FIELD_NUMBER: _ClassVar[int]
access: _descriptor.FieldDescriptor

class Access(_message.Message):
    __slots__ = ("roles", "mutates", "object")
    class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ROLE_UNSPECIFIED: _ClassVar[Access.Role]
        OPERATOR: _ClassVar[Access.Role]
        TENANT: _ClassVar[Access.Role]
        VIEWER: _ClassVar[Access.Role]
        GATEWAY: _ClassVar[Access.Role]
        AGENT: _ClassVar[Access.Role]
    ROLE_UNSPECIFIED: Access.Role
    OPERATOR: Access.Role
    TENANT: Access.Role
    VIEWER: Access.Role
    GATEWAY: Access.Role
    AGENT: Access.Role
    ROLES_FIELD_NUMBER: _ClassVar[int]
    MUTATES_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    roles: _containers.RepeatedScalarFieldContainer[Access.Role]
    mutates: bool
    object: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, roles: _Optional[_Iterable[_Union[Access.Role, str]]] = ..., mutates: _Optional[bool] = ..., object: _Optional[_Iterable[str]] = ...) -> None: ...

class JoinJobRequest(_message.Message):
    __slots__ = ("job_id", "node_rank", "node_count", "nics")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    node_rank: int
    node_count: int
    nics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., node_rank: _Optional[int] = ..., node_count: _Optional[int] = ..., nics: _Optional[_Iterable[str]] = ...) -> None: ...

class JoinJobReply(_message.Message):
    __slots__ = ("nics", "first_rank", "last_arrival")
    NICS_FIELD_NUMBER: _ClassVar[int]
    FIRST_RANK_FIELD_NUMBER: _ClassVar[int]
    LAST_ARRIVAL_FIELD_NUMBER: _ClassVar[int]
    nics: _containers.RepeatedScalarFieldContainer[str]
    first_rank: int
    last_arrival: bool
    def __init__(self, nics: _Optional[_Iterable[str]] = ..., first_rank: _Optional[int] = ..., last_arrival: _Optional[bool] = ...) -> None: ...

class JobPairs(_message.Message):
    __slots__ = ("job_id", "host", "pairs", "sends")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    SENDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    host: str
    pairs: _containers.RepeatedCompositeFieldContainer[ConnectedPair]
    sends: str
    def __init__(self, job_id: _Optional[str] = ..., host: _Optional[str] = ..., pairs: _Optional[_Iterable[_Union[ConnectedPair, _Mapping]]] = ..., sends: _Optional[str] = ...) -> None: ...

class ConnectedPair(_message.Message):
    __slots__ = ("src_nic", "dst_nic", "queue_pairs")
    SRC_NIC_FIELD_NUMBER: _ClassVar[int]
    DST_NIC_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PAIRS_FIELD_NUMBER: _ClassVar[int]
    src_nic: str
    dst_nic: str
    queue_pairs: int
    def __init__(self, src_nic: _Optional[str] = ..., dst_nic: _Optional[str] = ..., queue_pairs: _Optional[int] = ...) -> None: ...

class ReportPairsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveJobRequest(_message.Message):
    __slots__ = ("job_id", "node_rank")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_RANK_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    node_rank: int
    def __init__(self, job_id: _Optional[str] = ..., node_rank: _Optional[int] = ...) -> None: ...

class LeaveJobReply(_message.Message):
    __slots__ = ("last",)
    LAST_FIELD_NUMBER: _ClassVar[int]
    last: bool
    def __init__(self, last: _Optional[bool] = ...) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("job_id", "tenant", "ranks", "collectives", "priority", "lease_ms", "steering", "require_utilisation", "gpu_milli", "incast", "move_limits", "assumed", "drains_before_moves")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    STEERING_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    GPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    INCAST_FIELD_NUMBER: _ClassVar[int]
    MOVE_LIMITS_FIELD_NUMBER: _ClassVar[int]
    ASSUMED_FIELD_NUMBER: _ClassVar[int]
    DRAINS_BEFORE_MOVES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    tenant: str
    ranks: _containers.RepeatedScalarFieldContainer[str]
    collectives: _containers.RepeatedCompositeFieldContainer[Collective]
    priority: int
    lease_ms: int
    steering: Steering
    require_utilisation: float
    gpu_milli: int
    incast: Incast
    move_limits: _containers.RepeatedCompositeFieldContainer[MoveLimit]
    assumed: bool
    drains_before_moves: bool
    def __init__(self, job_id: _Optional[str] = ..., tenant: _Optional[str] = ..., ranks: _Optional[_Iterable[str]] = ..., collectives: _Optional[_Iterable[_Union[Collective, _Mapping]]] = ..., priority: _Optional[int] = ..., lease_ms: _Optional[int] = ..., steering: _Optional[_Union[Steering, str]] = ..., require_utilisation: _Optional[float] = ..., gpu_milli: _Optional[int] = ..., incast: _Optional[_Union[Incast, str]] = ..., move_limits: _Optional[_Iterable[_Union[MoveLimit, _Mapping]]] = ..., assumed: _Optional[bool] = ..., drains_before_moves: _Optional[bool] = ...) -> None: ...

class MoveLimit(_message.Message):
    __slots__ = ("cause", "whose", "max_flows")
    class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CAUSE_UNSPECIFIED: _ClassVar[MoveLimit.Cause]
        ARRIVAL: _ClassVar[MoveLimit.Cause]
        RELEASE: _ClassVar[MoveLimit.Cause]
        FAILURE: _ClassVar[MoveLimit.Cause]
        RECOVERY: _ClassVar[MoveLimit.Cause]
        CONGESTION: _ClassVar[MoveLimit.Cause]
        DRAIN: _ClassVar[MoveLimit.Cause]
        CONVERGENCE: _ClassVar[MoveLimit.Cause]
    CAUSE_UNSPECIFIED: MoveLimit.Cause
    ARRIVAL: MoveLimit.Cause
    RELEASE: MoveLimit.Cause
    FAILURE: MoveLimit.Cause
    RECOVERY: MoveLimit.Cause
    CONGESTION: MoveLimit.Cause
    DRAIN: MoveLimit.Cause
    CONVERGENCE: MoveLimit.Cause
    class Whose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WHOSE_UNSPECIFIED: _ClassVar[MoveLimit.Whose]
        NONE: _ClassVar[MoveLimit.Whose]
        OWN_JOB: _ClassVar[MoveLimit.Whose]
        TENANT: _ClassVar[MoveLimit.Whose]
        LOWER_PRIORITY: _ClassVar[MoveLimit.Whose]
        ANY: _ClassVar[MoveLimit.Whose]
    WHOSE_UNSPECIFIED: MoveLimit.Whose
    NONE: MoveLimit.Whose
    OWN_JOB: MoveLimit.Whose
    TENANT: MoveLimit.Whose
    LOWER_PRIORITY: MoveLimit.Whose
    ANY: MoveLimit.Whose
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    WHOSE_FIELD_NUMBER: _ClassVar[int]
    MAX_FLOWS_FIELD_NUMBER: _ClassVar[int]
    cause: MoveLimit.Cause
    whose: MoveLimit.Whose
    max_flows: int
    def __init__(self, cause: _Optional[_Union[MoveLimit.Cause, str]] = ..., whose: _Optional[_Union[MoveLimit.Whose, str]] = ..., max_flows: _Optional[int] = ...) -> None: ...

class ObservedFlows(_message.Message):
    __slots__ = ("host", "flows")
    HOST_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    host: str
    flows: _containers.RepeatedCompositeFieldContainer[ObservedFlow]
    def __init__(self, host: _Optional[str] = ..., flows: _Optional[_Iterable[_Union[ObservedFlow, _Mapping]]] = ...) -> None: ...

class ObservedFlow(_message.Message):
    __slots__ = ("src_ip", "dst_ip", "udp_source_port", "src_qpn", "dst_qpn", "job_hint", "sent_bytes", "timestamp_unix_ns", "path_errors", "left_sid", "paths")
    SRC_IP_FIELD_NUMBER: _ClassVar[int]
    DST_IP_FIELD_NUMBER: _ClassVar[int]
    UDP_SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
    SRC_QPN_FIELD_NUMBER: _ClassVar[int]
    DST_QPN_FIELD_NUMBER: _ClassVar[int]
    JOB_HINT_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    PATH_ERRORS_FIELD_NUMBER: _ClassVar[int]
    LEFT_SID_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    src_ip: str
    dst_ip: str
    udp_source_port: int
    src_qpn: int
    dst_qpn: int
    job_hint: str
    sent_bytes: int
    timestamp_unix_ns: int
    path_errors: int
    left_sid: str
    paths: _containers.RepeatedCompositeFieldContainer[ObservedPath]
    def __init__(self, src_ip: _Optional[str] = ..., dst_ip: _Optional[str] = ..., udp_source_port: _Optional[int] = ..., src_qpn: _Optional[int] = ..., dst_qpn: _Optional[int] = ..., job_hint: _Optional[str] = ..., sent_bytes: _Optional[int] = ..., timestamp_unix_ns: _Optional[int] = ..., path_errors: _Optional[int] = ..., left_sid: _Optional[str] = ..., paths: _Optional[_Iterable[_Union[ObservedPath, _Mapping]]] = ...) -> None: ...

class ObservedPath(_message.Message):
    __slots__ = ("sid", "denied")
    SID_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    sid: str
    denied: bool
    def __init__(self, sid: _Optional[str] = ..., denied: _Optional[bool] = ...) -> None: ...

class ReportFlowsReply(_message.Message):
    __slots__ = ("flows_pinned",)
    FLOWS_PINNED_FIELD_NUMBER: _ClassVar[int]
    flows_pinned: int
    def __init__(self, flows_pinned: _Optional[int] = ...) -> None: ...

class FlowPlanPage(_message.Message):
    __slots__ = ("generation", "flows")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    flows: _containers.RepeatedCompositeFieldContainer[FlowPlan]
    def __init__(self, generation: _Optional[int] = ..., flows: _Optional[_Iterable[_Union[FlowPlan, _Mapping]]] = ...) -> None: ...

class Collective(_message.Message):
    __slots__ = ("kind", "bytes", "root", "pairs", "flows", "qps_per_flow", "members", "phase", "algorithm", "paths_per_flow")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Collective.Kind]
        RING_ALL_REDUCE: _ClassVar[Collective.Kind]
        TREE_ALL_REDUCE: _ClassVar[Collective.Kind]
        ALL_GATHER: _ClassVar[Collective.Kind]
        REDUCE_SCATTER: _ClassVar[Collective.Kind]
        ALL_TO_ALL: _ClassVar[Collective.Kind]
        BROADCAST: _ClassVar[Collective.Kind]
        GATHER: _ClassVar[Collective.Kind]
        SEND_RECV: _ClassVar[Collective.Kind]
        CUSTOM: _ClassVar[Collective.Kind]
    KIND_UNSPECIFIED: Collective.Kind
    RING_ALL_REDUCE: Collective.Kind
    TREE_ALL_REDUCE: Collective.Kind
    ALL_GATHER: Collective.Kind
    REDUCE_SCATTER: Collective.Kind
    ALL_TO_ALL: Collective.Kind
    BROADCAST: Collective.Kind
    GATHER: Collective.Kind
    SEND_RECV: Collective.Kind
    CUSTOM: Collective.Kind
    class Algorithm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONTRACT: _ClassVar[Collective.Algorithm]
        NCCL: _ClassVar[Collective.Algorithm]
        NCCL_NO_PXN: _ClassVar[Collective.Algorithm]
    CONTRACT: Collective.Algorithm
    NCCL: Collective.Algorithm
    NCCL_NO_PXN: Collective.Algorithm
    KIND_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    QPS_PER_FLOW_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    PATHS_PER_FLOW_FIELD_NUMBER: _ClassVar[int]
    kind: Collective.Kind
    bytes: int
    root: int
    pairs: _containers.RepeatedCompositeFieldContainer[RankPair]
    flows: _containers.RepeatedCompositeFieldContainer[FlowDemand]
    qps_per_flow: int
    members: _containers.RepeatedScalarFieldContainer[int]
    phase: int
    algorithm: Collective.Algorithm
    paths_per_flow: int
    def __init__(self, kind: _Optional[_Union[Collective.Kind, str]] = ..., bytes: _Optional[int] = ..., root: _Optional[int] = ..., pairs: _Optional[_Iterable[_Union[RankPair, _Mapping]]] = ..., flows: _Optional[_Iterable[_Union[FlowDemand, _Mapping]]] = ..., qps_per_flow: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., phase: _Optional[int] = ..., algorithm: _Optional[_Union[Collective.Algorithm, str]] = ..., paths_per_flow: _Optional[int] = ...) -> None: ...

class RankPair(_message.Message):
    __slots__ = ("src_rank", "dst_rank")
    SRC_RANK_FIELD_NUMBER: _ClassVar[int]
    DST_RANK_FIELD_NUMBER: _ClassVar[int]
    src_rank: int
    dst_rank: int
    def __init__(self, src_rank: _Optional[int] = ..., dst_rank: _Optional[int] = ...) -> None: ...

class FlowDemand(_message.Message):
    __slots__ = ("src_rank", "dst_rank", "rate_bps", "udp_source_port")
    SRC_RANK_FIELD_NUMBER: _ClassVar[int]
    DST_RANK_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    UDP_SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
    src_rank: int
    dst_rank: int
    rate_bps: int
    udp_source_port: int
    def __init__(self, src_rank: _Optional[int] = ..., dst_rank: _Optional[int] = ..., rate_bps: _Optional[int] = ..., udp_source_port: _Optional[int] = ...) -> None: ...

class RenewJobRequest(_message.Message):
    __slots__ = ("job_id", "lease_ms")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    lease_ms: int
    def __init__(self, job_id: _Optional[str] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class ReleaseJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ReleaseJobReply(_message.Message):
    __slots__ = ("flows_released",)
    FLOWS_RELEASED_FIELD_NUMBER: _ClassVar[int]
    flows_released: int
    def __init__(self, flows_released: _Optional[int] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job_id", "with_path_sets")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_PATH_SETS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    with_path_sets: bool
    def __init__(self, job_id: _Optional[str] = ..., with_path_sets: _Optional[bool] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("tenant", "page_token", "without_flows", "id_prefix")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FLOWS_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    page_token: str
    without_flows: bool
    id_prefix: str
    def __init__(self, tenant: _Optional[str] = ..., page_token: _Optional[str] = ..., without_flows: _Optional[bool] = ..., id_prefix: _Optional[str] = ...) -> None: ...

class ListJobsReply(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobPlan]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobPlan, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchJobRequest(_message.Message):
    __slots__ = ("job_id", "changes_only")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_ONLY_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    changes_only: bool
    def __init__(self, job_id: _Optional[str] = ..., changes_only: _Optional[bool] = ...) -> None: ...

class JobPlan(_message.Message):
    __slots__ = ("job_id", "generation", "flows", "certificate", "reason", "lease_expires_unix_ms", "flows_truncated", "tenant", "priority", "state", "predicted_completion_ns", "flow_count", "path_templates")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRES_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    FLOWS_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_COMPLETION_NS_FIELD_NUMBER: _ClassVar[int]
    FLOW_COUNT_FIELD_NUMBER: _ClassVar[int]
    PATH_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    generation: int
    flows: _containers.RepeatedCompositeFieldContainer[FlowPlan]
    certificate: Certificate
    reason: str
    lease_expires_unix_ms: int
    flows_truncated: bool
    tenant: str
    priority: int
    state: str
    predicted_completion_ns: int
    flow_count: int
    path_templates: PathTemplates
    def __init__(self, job_id: _Optional[str] = ..., generation: _Optional[int] = ..., flows: _Optional[_Iterable[_Union[FlowPlan, _Mapping]]] = ..., certificate: _Optional[_Union[Certificate, _Mapping]] = ..., reason: _Optional[str] = ..., lease_expires_unix_ms: _Optional[int] = ..., flows_truncated: _Optional[bool] = ..., tenant: _Optional[str] = ..., priority: _Optional[int] = ..., state: _Optional[str] = ..., predicted_completion_ns: _Optional[int] = ..., flow_count: _Optional[int] = ..., path_templates: _Optional[_Union[PathTemplates, _Mapping]] = ...) -> None: ...

class PathTemplates(_message.Message):
    __slots__ = ("templates", "uplinks")
    TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    UPLINKS_FIELD_NUMBER: _ClassVar[int]
    templates: _containers.RepeatedCompositeFieldContainer[PathTemplate]
    uplinks: int
    def __init__(self, templates: _Optional[_Iterable[_Union[PathTemplate, _Mapping]]] = ..., uplinks: _Optional[int] = ...) -> None: ...

class PathTemplate(_message.Message):
    __slots__ = ("collectives", "uplink_shifts", "core_shifts")
    COLLECTIVES_FIELD_NUMBER: _ClassVar[int]
    UPLINK_SHIFTS_FIELD_NUMBER: _ClassVar[int]
    CORE_SHIFTS_FIELD_NUMBER: _ClassVar[int]
    collectives: _containers.RepeatedScalarFieldContainer[int]
    uplink_shifts: _containers.RepeatedScalarFieldContainer[int]
    core_shifts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, collectives: _Optional[_Iterable[int]] = ..., uplink_shifts: _Optional[_Iterable[int]] = ..., core_shifts: _Optional[_Iterable[int]] = ...) -> None: ...

class PathSet(_message.Message):
    __slots__ = ("entries", "paths", "order", "rotations")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ROTATIONS_FIELD_NUMBER: _ClassVar[int]
    entries: int
    paths: _containers.RepeatedCompositeFieldContainer[Path]
    order: _containers.RepeatedScalarFieldContainer[int]
    rotations: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, entries: _Optional[int] = ..., paths: _Optional[_Iterable[_Union[Path, _Mapping]]] = ..., order: _Optional[_Iterable[int]] = ..., rotations: _Optional[_Iterable[int]] = ...) -> None: ...

class Path(_message.Message):
    __slots__ = ("links", "weight", "udp_source_port", "sid")
    LINKS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    UDP_SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
    SID_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedScalarFieldContainer[str]
    weight: int
    udp_source_port: int
    sid: str
    def __init__(self, links: _Optional[_Iterable[str]] = ..., weight: _Optional[int] = ..., udp_source_port: _Optional[int] = ..., sid: _Optional[str] = ...) -> None: ...

class FlowPlan(_message.Message):
    __slots__ = ("flow_id", "src_nic", "dst_nic", "links", "udp_source_port", "rate_bps", "window", "dscp", "priority_group", "reverse_links", "reverse_udp_source_port", "demand_bps", "phase", "src_rank", "dst_rank", "collective", "queue_pair", "pinned", "measured_bps", "work_conserving", "sid", "reverse_sid", "path_set")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    SRC_NIC_FIELD_NUMBER: _ClassVar[int]
    DST_NIC_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    UDP_SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    DSCP_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_GROUP_FIELD_NUMBER: _ClassVar[int]
    REVERSE_LINKS_FIELD_NUMBER: _ClassVar[int]
    REVERSE_UDP_SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
    DEMAND_BPS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SRC_RANK_FIELD_NUMBER: _ClassVar[int]
    DST_RANK_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PAIR_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    MEASURED_BPS_FIELD_NUMBER: _ClassVar[int]
    WORK_CONSERVING_FIELD_NUMBER: _ClassVar[int]
    SID_FIELD_NUMBER: _ClassVar[int]
    REVERSE_SID_FIELD_NUMBER: _ClassVar[int]
    PATH_SET_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    src_nic: str
    dst_nic: str
    links: _containers.RepeatedScalarFieldContainer[str]
    udp_source_port: int
    rate_bps: int
    window: AdmissionWindow
    dscp: int
    priority_group: int
    reverse_links: _containers.RepeatedScalarFieldContainer[str]
    reverse_udp_source_port: int
    demand_bps: int
    phase: int
    src_rank: int
    dst_rank: int
    collective: int
    queue_pair: int
    pinned: bool
    measured_bps: int
    work_conserving: bool
    sid: str
    reverse_sid: str
    path_set: PathSet
    def __init__(self, flow_id: _Optional[str] = ..., src_nic: _Optional[str] = ..., dst_nic: _Optional[str] = ..., links: _Optional[_Iterable[str]] = ..., udp_source_port: _Optional[int] = ..., rate_bps: _Optional[int] = ..., window: _Optional[_Union[AdmissionWindow, _Mapping]] = ..., dscp: _Optional[int] = ..., priority_group: _Optional[int] = ..., reverse_links: _Optional[_Iterable[str]] = ..., reverse_udp_source_port: _Optional[int] = ..., demand_bps: _Optional[int] = ..., phase: _Optional[int] = ..., src_rank: _Optional[int] = ..., dst_rank: _Optional[int] = ..., collective: _Optional[int] = ..., queue_pair: _Optional[int] = ..., pinned: _Optional[bool] = ..., measured_bps: _Optional[int] = ..., work_conserving: _Optional[bool] = ..., sid: _Optional[str] = ..., reverse_sid: _Optional[str] = ..., path_set: _Optional[_Union[PathSet, _Mapping]] = ...) -> None: ...

class AdmissionWindow(_message.Message):
    __slots__ = ("slot", "slots", "slot_ns")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SLOT_NS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    slots: int
    slot_ns: int
    def __init__(self, slot: _Optional[int] = ..., slots: _Optional[int] = ..., slot_ns: _Optional[int] = ...) -> None: ...

class Certificate(_message.Message):
    __slots__ = ("max_link_utilisation", "lower_bound", "lower_bound_kind", "ecmp_max_link_utilisation", "e_ecmp_max_link_utilisation", "bottleneck_link", "deadlock_free", "solve_ns", "install_ns", "flows_moved", "rules_installed", "max_rules_on_a_switch", "max_nic_utilisation", "bottleneck_nic", "own_max_link_utilisation", "flows_slowed", "mean_share", "worst_share", "links_over_capacity", "probed", "paths_confirmed", "oldest_confirmation_unix_ms", "probes", "flows_work_conserving", "assumed", "below_goal", "by_construction", "spraying")
    MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    LOWER_BOUND_KIND_FIELD_NUMBER: _ClassVar[int]
    ECMP_MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    E_ECMP_MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_LINK_FIELD_NUMBER: _ClassVar[int]
    DEADLOCK_FREE_FIELD_NUMBER: _ClassVar[int]
    SOLVE_NS_FIELD_NUMBER: _ClassVar[int]
    INSTALL_NS_FIELD_NUMBER: _ClassVar[int]
    FLOWS_MOVED_FIELD_NUMBER: _ClassVar[int]
    RULES_INSTALLED_FIELD_NUMBER: _ClassVar[int]
    MAX_RULES_ON_A_SWITCH_FIELD_NUMBER: _ClassVar[int]
    MAX_NIC_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_NIC_FIELD_NUMBER: _ClassVar[int]
    OWN_MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    FLOWS_SLOWED_FIELD_NUMBER: _ClassVar[int]
    MEAN_SHARE_FIELD_NUMBER: _ClassVar[int]
    WORST_SHARE_FIELD_NUMBER: _ClassVar[int]
    LINKS_OVER_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PROBED_FIELD_NUMBER: _ClassVar[int]
    PATHS_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_CONFIRMATION_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    FLOWS_WORK_CONSERVING_FIELD_NUMBER: _ClassVar[int]
    ASSUMED_FIELD_NUMBER: _ClassVar[int]
    BELOW_GOAL_FIELD_NUMBER: _ClassVar[int]
    BY_CONSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    SPRAYING_FIELD_NUMBER: _ClassVar[int]
    max_link_utilisation: float
    lower_bound: float
    lower_bound_kind: str
    ecmp_max_link_utilisation: float
    e_ecmp_max_link_utilisation: float
    bottleneck_link: str
    deadlock_free: bool
    solve_ns: int
    install_ns: int
    flows_moved: int
    rules_installed: int
    max_rules_on_a_switch: int
    max_nic_utilisation: float
    bottleneck_nic: str
    own_max_link_utilisation: float
    flows_slowed: int
    mean_share: float
    worst_share: float
    links_over_capacity: int
    probed: bool
    paths_confirmed: int
    oldest_confirmation_unix_ms: int
    probes: int
    flows_work_conserving: int
    assumed: bool
    below_goal: float
    by_construction: bool
    spraying: Spraying
    def __init__(self, max_link_utilisation: _Optional[float] = ..., lower_bound: _Optional[float] = ..., lower_bound_kind: _Optional[str] = ..., ecmp_max_link_utilisation: _Optional[float] = ..., e_ecmp_max_link_utilisation: _Optional[float] = ..., bottleneck_link: _Optional[str] = ..., deadlock_free: _Optional[bool] = ..., solve_ns: _Optional[int] = ..., install_ns: _Optional[int] = ..., flows_moved: _Optional[int] = ..., rules_installed: _Optional[int] = ..., max_rules_on_a_switch: _Optional[int] = ..., max_nic_utilisation: _Optional[float] = ..., bottleneck_nic: _Optional[str] = ..., own_max_link_utilisation: _Optional[float] = ..., flows_slowed: _Optional[int] = ..., mean_share: _Optional[float] = ..., worst_share: _Optional[float] = ..., links_over_capacity: _Optional[int] = ..., probed: _Optional[bool] = ..., paths_confirmed: _Optional[int] = ..., oldest_confirmation_unix_ms: _Optional[int] = ..., probes: _Optional[int] = ..., flows_work_conserving: _Optional[int] = ..., assumed: _Optional[bool] = ..., below_goal: _Optional[float] = ..., by_construction: _Optional[bool] = ..., spraying: _Optional[_Union[Spraying, _Mapping]] = ...) -> None: ...

class Spraying(_message.Message):
    __slots__ = ("flows", "single_path_max_link_utilisation", "random_sets_max_link_utilisation", "all_paths_max_link_utilisation", "advice")
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    SINGLE_PATH_MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    RANDOM_SETS_MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    ALL_PATHS_MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    flows: int
    single_path_max_link_utilisation: float
    random_sets_max_link_utilisation: float
    all_paths_max_link_utilisation: float
    advice: str
    def __init__(self, flows: _Optional[int] = ..., single_path_max_link_utilisation: _Optional[float] = ..., random_sets_max_link_utilisation: _Optional[float] = ..., all_paths_max_link_utilisation: _Optional[float] = ..., advice: _Optional[str] = ...) -> None: ...

class SuggestPlacementRequest(_message.Message):
    __slots__ = ("ranks", "collectives", "gpu_milli", "max_suggestions")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVES_FIELD_NUMBER: _ClassVar[int]
    GPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MAX_SUGGESTIONS_FIELD_NUMBER: _ClassVar[int]
    ranks: int
    collectives: _containers.RepeatedCompositeFieldContainer[Collective]
    gpu_milli: int
    max_suggestions: int
    def __init__(self, ranks: _Optional[int] = ..., collectives: _Optional[_Iterable[_Union[Collective, _Mapping]]] = ..., gpu_milli: _Optional[int] = ..., max_suggestions: _Optional[int] = ...) -> None: ...

class SuggestPlacementReply(_message.Message):
    __slots__ = ("placements",)
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    placements: _containers.RepeatedCompositeFieldContainer[Placement]
    def __init__(self, placements: _Optional[_Iterable[_Union[Placement, _Mapping]]] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("nics", "max_link_utilisation", "leaves_used", "reason", "own_max_link_utilisation")
    NICS_FIELD_NUMBER: _ClassVar[int]
    MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    LEAVES_USED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OWN_MAX_LINK_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    nics: _containers.RepeatedScalarFieldContainer[str]
    max_link_utilisation: float
    leaves_used: int
    reason: str
    own_max_link_utilisation: float
    def __init__(self, nics: _Optional[_Iterable[str]] = ..., max_link_utilisation: _Optional[float] = ..., leaves_used: _Optional[int] = ..., reason: _Optional[str] = ..., own_max_link_utilisation: _Optional[float] = ...) -> None: ...

class GetTopologyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Topology(_message.Message):
    __slots__ = ("generation", "switches", "links", "nics", "hashes", "miscablings", "wrong_in_use")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    MISCABLINGS_FIELD_NUMBER: _ClassVar[int]
    WRONG_IN_USE_FIELD_NUMBER: _ClassVar[int]
    generation: int
    switches: _containers.RepeatedCompositeFieldContainer[Switch]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    nics: _containers.RepeatedCompositeFieldContainer[Nic]
    hashes: bool
    miscablings: _containers.RepeatedCompositeFieldContainer[Miscabling]
    wrong_in_use: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[int] = ..., switches: _Optional[_Iterable[_Union[Switch, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., nics: _Optional[_Iterable[_Union[Nic, _Mapping]]] = ..., hashes: _Optional[bool] = ..., miscablings: _Optional[_Iterable[_Union[Miscabling, _Mapping]]] = ..., wrong_in_use: _Optional[_Iterable[str]] = ...) -> None: ...

class Miscabling(_message.Message):
    __slots__ = ("kind", "text", "cables")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CABLES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    text: str
    cables: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., text: _Optional[str] = ..., cables: _Optional[_Iterable[str]] = ...) -> None: ...

class Switch(_message.Message):
    __slots__ = ("id", "role", "datapath_id", "connected", "drained", "rules", "fault", "srv6_locator")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DATAPATH_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    SRV6_LOCATOR_FIELD_NUMBER: _ClassVar[int]
    id: str
    role: str
    datapath_id: int
    connected: bool
    drained: bool
    rules: int
    fault: str
    srv6_locator: str
    def __init__(self, id: _Optional[str] = ..., role: _Optional[str] = ..., datapath_id: _Optional[int] = ..., connected: _Optional[bool] = ..., drained: _Optional[bool] = ..., rules: _Optional[int] = ..., fault: _Optional[str] = ..., srv6_locator: _Optional[str] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("id", "src", "dst", "capacity_bps", "up", "drained", "planned_utilisation", "measured_utilisation", "measured", "cabling", "heard", "left_out", "left_bps", "fault", "as_found", "srv6_sid")
    ID_FIELD_NUMBER: _ClassVar[int]
    SRC_FIELD_NUMBER: _ClassVar[int]
    DST_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BPS_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    PLANNED_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    MEASURED_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    CABLING_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    LEFT_BPS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    AS_FOUND_FIELD_NUMBER: _ClassVar[int]
    SRV6_SID_FIELD_NUMBER: _ClassVar[int]
    id: str
    src: str
    dst: str
    capacity_bps: int
    up: bool
    drained: bool
    planned_utilisation: float
    measured_utilisation: float
    measured: bool
    cabling: str
    heard: str
    left_out: bool
    left_bps: int
    fault: str
    as_found: bool
    srv6_sid: str
    def __init__(self, id: _Optional[str] = ..., src: _Optional[str] = ..., dst: _Optional[str] = ..., capacity_bps: _Optional[int] = ..., up: _Optional[bool] = ..., drained: _Optional[bool] = ..., planned_utilisation: _Optional[float] = ..., measured_utilisation: _Optional[float] = ..., measured: _Optional[bool] = ..., cabling: _Optional[str] = ..., heard: _Optional[str] = ..., left_out: _Optional[bool] = ..., left_bps: _Optional[int] = ..., fault: _Optional[str] = ..., as_found: _Optional[bool] = ..., srv6_sid: _Optional[str] = ...) -> None: ...

class Nic(_message.Message):
    __slots__ = ("id", "host", "ip", "mac", "leaf_port", "capacity_bps", "rail", "network", "nvlink_domain", "srv6_source", "of", "plane", "paths_per_flow")
    ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    LEAF_PORT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BPS_FIELD_NUMBER: _ClassVar[int]
    RAIL_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    NVLINK_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    SRV6_SOURCE_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    PLANE_FIELD_NUMBER: _ClassVar[int]
    PATHS_PER_FLOW_FIELD_NUMBER: _ClassVar[int]
    id: str
    host: str
    ip: str
    mac: str
    leaf_port: str
    capacity_bps: int
    rail: int
    network: str
    nvlink_domain: str
    srv6_source: str
    of: str
    plane: int
    paths_per_flow: int
    def __init__(self, id: _Optional[str] = ..., host: _Optional[str] = ..., ip: _Optional[str] = ..., mac: _Optional[str] = ..., leaf_port: _Optional[str] = ..., capacity_bps: _Optional[int] = ..., rail: _Optional[int] = ..., network: _Optional[str] = ..., nvlink_domain: _Optional[str] = ..., srv6_source: _Optional[str] = ..., of: _Optional[str] = ..., plane: _Optional[int] = ..., paths_per_flow: _Optional[int] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("target", "undrain")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    UNDRAIN_FIELD_NUMBER: _ClassVar[int]
    target: str
    undrain: bool
    def __init__(self, target: _Optional[str] = ..., undrain: _Optional[bool] = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ("flows_moved", "certificate")
    FLOWS_MOVED_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    flows_moved: int
    certificate: Certificate
    def __init__(self, flows_moved: _Optional[int] = ..., certificate: _Optional[_Union[Certificate, _Mapping]] = ...) -> None: ...

class ApplyFabricRequest(_message.Message):
    __slots__ = ("fabric", "dry_run", "name")
    FABRIC_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    fabric: str
    dry_run: bool
    name: str
    def __init__(self, fabric: _Optional[str] = ..., dry_run: _Optional[bool] = ..., name: _Optional[str] = ...) -> None: ...

class ApplyFabricReply(_message.Message):
    __slots__ = ("refusal", "harms", "jobs", "rules", "applied", "differences", "copies")
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    HARMS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    refusal: str
    harms: _containers.RepeatedScalarFieldContainer[str]
    jobs: _containers.RepeatedCompositeFieldContainer[JobFate]
    rules: _containers.RepeatedCompositeFieldContainer[RuleChange]
    applied: bool
    differences: _containers.RepeatedCompositeFieldContainer[FabricDifference]
    copies: _containers.RepeatedCompositeFieldContainer[FabricCopy]
    def __init__(self, refusal: _Optional[str] = ..., harms: _Optional[_Iterable[str]] = ..., jobs: _Optional[_Iterable[_Union[JobFate, _Mapping]]] = ..., rules: _Optional[_Iterable[_Union[RuleChange, _Mapping]]] = ..., applied: _Optional[bool] = ..., differences: _Optional[_Iterable[_Union[FabricDifference, _Mapping]]] = ..., copies: _Optional[_Iterable[_Union[FabricCopy, _Mapping]]] = ...) -> None: ...

class FabricDifference(_message.Message):
    __slots__ = ("kind", "id", "was", "now")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    WAS_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    was: str
    now: str
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ..., was: _Optional[str] = ..., now: _Optional[str] = ...) -> None: ...

class FabricCopy(_message.Message):
    __slots__ = ("what", "parts", "todo")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TODO_FIELD_NUMBER: _ClassVar[int]
    what: str
    parts: _containers.RepeatedScalarFieldContainer[str]
    todo: str
    def __init__(self, what: _Optional[str] = ..., parts: _Optional[_Iterable[str]] = ..., todo: _Optional[str] = ...) -> None: ...

class JobFate(_message.Message):
    __slots__ = ("job_id", "kind", "flows", "text")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOTHING: _ClassVar[JobFate.Kind]
        SLOWER: _ClassVar[JobFate.Kind]
        NEW_PORTS: _ClassVar[JobFate.Kind]
        CUT_OFF: _ClassVar[JobFate.Kind]
    NOTHING: JobFate.Kind
    SLOWER: JobFate.Kind
    NEW_PORTS: JobFate.Kind
    CUT_OFF: JobFate.Kind
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    kind: JobFate.Kind
    flows: int
    text: str
    def __init__(self, job_id: _Optional[str] = ..., kind: _Optional[_Union[JobFate.Kind, str]] = ..., flows: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class RuleChange(_message.Message):
    __slots__ = ("switch", "added", "removed")
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    switch: str
    added: int
    removed: int
    def __init__(self, switch: _Optional[str] = ..., added: _Optional[int] = ..., removed: _Optional[int] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("flow_id",)
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    def __init__(self, flow_id: _Optional[str] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("text", "job_id", "hops", "sharing_flows", "moves", "paths")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    SHARING_FLOWS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    text: str
    job_id: str
    hops: _containers.RepeatedScalarFieldContainer[str]
    sharing_flows: _containers.RepeatedScalarFieldContainer[str]
    moves: _containers.RepeatedScalarFieldContainer[str]
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[str] = ..., job_id: _Optional[str] = ..., hops: _Optional[_Iterable[str]] = ..., sharing_flows: _Optional[_Iterable[str]] = ..., moves: _Optional[_Iterable[str]] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchPortsRequest(_message.Message):
    __slots__ = ("ports",)
    PORTS_FIELD_NUMBER: _ClassVar[int]
    ports: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ports: _Optional[_Iterable[str]] = ...) -> None: ...

class PortSampleBatch(_message.Message):
    __slots__ = ("samples",)
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    samples: _containers.RepeatedCompositeFieldContainer[PortSample]
    def __init__(self, samples: _Optional[_Iterable[_Union[PortSample, _Mapping]]] = ...) -> None: ...

class PortSample(_message.Message):
    __slots__ = ("port", "timestamp_unix_ns", "sequence", "tx_bytes", "rx_bytes", "tx_packets", "rx_packets", "drops", "queues", "boot_id", "nic_counters", "stale", "carrier", "rx_crc_errors", "fec_corrected_codewords", "fec_uncorrectable_codewords", "flaps", "speed_bps", "lanes", "lldp")
    class NicCountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PORT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TX_BYTES_FIELD_NUMBER: _ClassVar[int]
    RX_BYTES_FIELD_NUMBER: _ClassVar[int]
    TX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    RX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    NIC_COUNTERS_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    CARRIER_FIELD_NUMBER: _ClassVar[int]
    RX_CRC_ERRORS_FIELD_NUMBER: _ClassVar[int]
    FEC_CORRECTED_CODEWORDS_FIELD_NUMBER: _ClassVar[int]
    FEC_UNCORRECTABLE_CODEWORDS_FIELD_NUMBER: _ClassVar[int]
    FLAPS_FIELD_NUMBER: _ClassVar[int]
    SPEED_BPS_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    LLDP_FIELD_NUMBER: _ClassVar[int]
    port: str
    timestamp_unix_ns: int
    sequence: int
    tx_bytes: int
    rx_bytes: int
    tx_packets: int
    rx_packets: int
    drops: int
    queues: _containers.RepeatedCompositeFieldContainer[QueueSample]
    boot_id: int
    nic_counters: _containers.ScalarMap[str, int]
    stale: bool
    carrier: bool
    rx_crc_errors: int
    fec_corrected_codewords: int
    fec_uncorrectable_codewords: int
    flaps: int
    speed_bps: int
    lanes: int
    lldp: HeardAtPort
    def __init__(self, port: _Optional[str] = ..., timestamp_unix_ns: _Optional[int] = ..., sequence: _Optional[int] = ..., tx_bytes: _Optional[int] = ..., rx_bytes: _Optional[int] = ..., tx_packets: _Optional[int] = ..., rx_packets: _Optional[int] = ..., drops: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[QueueSample, _Mapping]]] = ..., boot_id: _Optional[int] = ..., nic_counters: _Optional[_Mapping[str, int]] = ..., stale: _Optional[bool] = ..., carrier: _Optional[bool] = ..., rx_crc_errors: _Optional[int] = ..., fec_corrected_codewords: _Optional[int] = ..., fec_uncorrectable_codewords: _Optional[int] = ..., flaps: _Optional[int] = ..., speed_bps: _Optional[int] = ..., lanes: _Optional[int] = ..., lldp: _Optional[_Union[HeardAtPort, _Mapping]] = ...) -> None: ...

class HeardAtPort(_message.Message):
    __slots__ = ("interface", "neighbours")
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    interface: str
    neighbours: _containers.RepeatedCompositeFieldContainer[HeardNeighbour]
    def __init__(self, interface: _Optional[str] = ..., neighbours: _Optional[_Iterable[_Union[HeardNeighbour, _Mapping]]] = ...) -> None: ...

class HeardNeighbour(_message.Message):
    __slots__ = ("system", "chassis", "ports")
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    CHASSIS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    system: str
    chassis: str
    ports: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, system: _Optional[str] = ..., chassis: _Optional[str] = ..., ports: _Optional[_Iterable[str]] = ...) -> None: ...

class QueueSample(_message.Message):
    __slots__ = ("priority", "ecn_marked_packets", "pfc_rx_frames", "pfc_tx_frames", "paused_ns", "depth_bytes", "max_depth_bytes", "packets", "bytes", "dropped_packets", "watchdog_dropped_packets", "watchdog_active")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ECN_MARKED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    PFC_RX_FRAMES_FIELD_NUMBER: _ClassVar[int]
    PFC_TX_FRAMES_FIELD_NUMBER: _ClassVar[int]
    PAUSED_NS_FIELD_NUMBER: _ClassVar[int]
    DEPTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    WATCHDOG_DROPPED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    WATCHDOG_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    priority: int
    ecn_marked_packets: int
    pfc_rx_frames: int
    pfc_tx_frames: int
    paused_ns: int
    depth_bytes: int
    max_depth_bytes: int
    packets: int
    bytes: int
    dropped_packets: int
    watchdog_dropped_packets: int
    watchdog_active: bool
    def __init__(self, priority: _Optional[int] = ..., ecn_marked_packets: _Optional[int] = ..., pfc_rx_frames: _Optional[int] = ..., pfc_tx_frames: _Optional[int] = ..., paused_ns: _Optional[int] = ..., depth_bytes: _Optional[int] = ..., max_depth_bytes: _Optional[int] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ..., dropped_packets: _Optional[int] = ..., watchdog_dropped_packets: _Optional[int] = ..., watchdog_active: _Optional[bool] = ...) -> None: ...

class ListCongestionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCongestionReply(_message.Message):
    __slots__ = ("congestion",)
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    congestion: _containers.RepeatedCompositeFieldContainer[Congestion]
    def __init__(self, congestion: _Optional[_Iterable[_Union[Congestion, _Mapping]]] = ...) -> None: ...

class Congestion(_message.Message):
    __slots__ = ("port", "priority", "kind", "since_unix_ms", "flow_ids", "root_cause", "whole_port", "value", "threshold", "stale", "flows")
    PORT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    FLOW_IDS_FIELD_NUMBER: _ClassVar[int]
    ROOT_CAUSE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_PORT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    port: str
    priority: int
    kind: str
    since_unix_ms: int
    flow_ids: _containers.RepeatedScalarFieldContainer[str]
    root_cause: str
    whole_port: bool
    value: float
    threshold: float
    stale: bool
    flows: int
    def __init__(self, port: _Optional[str] = ..., priority: _Optional[int] = ..., kind: _Optional[str] = ..., since_unix_ms: _Optional[int] = ..., flow_ids: _Optional[_Iterable[str]] = ..., root_cause: _Optional[str] = ..., whole_port: _Optional[bool] = ..., value: _Optional[float] = ..., threshold: _Optional[float] = ..., stale: _Optional[bool] = ..., flows: _Optional[int] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("since_unix_ns", "history_only")
    SINCE_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_ONLY_FIELD_NUMBER: _ClassVar[int]
    since_unix_ns: int
    history_only: bool
    def __init__(self, since_unix_ns: _Optional[int] = ..., history_only: _Optional[bool] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("timestamp_unix_ns", "severity", "kind", "subject", "text")
    TIMESTAMP_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    timestamp_unix_ns: int
    severity: str
    kind: str
    subject: str
    text: str
    def __init__(self, timestamp_unix_ns: _Optional[int] = ..., severity: _Optional[str] = ..., kind: _Optional[str] = ..., subject: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class NetworkObjects(_message.Message):
    __slots__ = ("vpcs", "peerings", "load_balancers", "border")
    VPCS_FIELD_NUMBER: _ClassVar[int]
    PEERINGS_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCERS_FIELD_NUMBER: _ClassVar[int]
    BORDER_FIELD_NUMBER: _ClassVar[int]
    vpcs: _containers.RepeatedCompositeFieldContainer[Vpc]
    peerings: _containers.RepeatedCompositeFieldContainer[Peering]
    load_balancers: _containers.RepeatedCompositeFieldContainer[LoadBalancer]
    border: Border
    def __init__(self, vpcs: _Optional[_Iterable[_Union[Vpc, _Mapping]]] = ..., peerings: _Optional[_Iterable[_Union[Peering, _Mapping]]] = ..., load_balancers: _Optional[_Iterable[_Union[LoadBalancer, _Mapping]]] = ..., border: _Optional[_Union[Border, _Mapping]] = ...) -> None: ...

class ApplyNetworkReply(_message.Message):
    __slots__ = ("applied", "away")
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    applied: NetworkObjects
    away: _containers.RepeatedCompositeFieldContainer[GatewayAddress]
    def __init__(self, applied: _Optional[_Union[NetworkObjects, _Mapping]] = ..., away: _Optional[_Iterable[_Union[GatewayAddress, _Mapping]]] = ...) -> None: ...

class Vpc(_message.Message):
    __slots__ = ("id", "tenant", "vni", "subnets", "endpoints", "security_rules", "nat", "direct_connects", "floating_ips", "network")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    VNI_FIELD_NUMBER: _ClassVar[int]
    SUBNETS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    SECURITY_RULES_FIELD_NUMBER: _ClassVar[int]
    NAT_FIELD_NUMBER: _ClassVar[int]
    DIRECT_CONNECTS_FIELD_NUMBER: _ClassVar[int]
    FLOATING_IPS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    vni: int
    subnets: _containers.RepeatedCompositeFieldContainer[Subnet]
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    security_rules: _containers.RepeatedCompositeFieldContainer[SecurityRule]
    nat: NatGateway
    direct_connects: _containers.RepeatedCompositeFieldContainer[DirectConnect]
    floating_ips: _containers.RepeatedCompositeFieldContainer[FloatingIp]
    network: str
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ..., vni: _Optional[int] = ..., subnets: _Optional[_Iterable[_Union[Subnet, _Mapping]]] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., security_rules: _Optional[_Iterable[_Union[SecurityRule, _Mapping]]] = ..., nat: _Optional[_Union[NatGateway, _Mapping]] = ..., direct_connects: _Optional[_Iterable[_Union[DirectConnect, _Mapping]]] = ..., floating_ips: _Optional[_Iterable[_Union[FloatingIp, _Mapping]]] = ..., network: _Optional[str] = ...) -> None: ...

class FloatingIp(_message.Message):
    __slots__ = ("public_ip", "endpoint_ip")
    PUBLIC_IP_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_IP_FIELD_NUMBER: _ClassVar[int]
    public_ip: str
    endpoint_ip: str
    def __init__(self, public_ip: _Optional[str] = ..., endpoint_ip: _Optional[str] = ...) -> None: ...

class Subnet(_message.Message):
    __slots__ = ("cidr", "gateway_ip")
    CIDR_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_IP_FIELD_NUMBER: _ClassVar[int]
    cidr: str
    gateway_ip: str
    def __init__(self, cidr: _Optional[str] = ..., gateway_ip: _Optional[str] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("ip", "mac", "vtep_ip")
    IP_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    VTEP_IP_FIELD_NUMBER: _ClassVar[int]
    ip: str
    mac: str
    vtep_ip: str
    def __init__(self, ip: _Optional[str] = ..., mac: _Optional[str] = ..., vtep_ip: _Optional[str] = ...) -> None: ...

class SecurityRule(_message.Message):
    __slots__ = ("allow", "direction", "protocol", "remote_cidr", "port_min", "port_max")
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    REMOTE_CIDR_FIELD_NUMBER: _ClassVar[int]
    PORT_MIN_FIELD_NUMBER: _ClassVar[int]
    PORT_MAX_FIELD_NUMBER: _ClassVar[int]
    allow: bool
    direction: str
    protocol: str
    remote_cidr: str
    port_min: int
    port_max: int
    def __init__(self, allow: _Optional[bool] = ..., direction: _Optional[str] = ..., protocol: _Optional[str] = ..., remote_cidr: _Optional[str] = ..., port_min: _Optional[int] = ..., port_max: _Optional[int] = ...) -> None: ...

class NatGateway(_message.Message):
    __slots__ = ("public_ip",)
    PUBLIC_IP_FIELD_NUMBER: _ClassVar[int]
    public_ip: str
    def __init__(self, public_ip: _Optional[str] = ...) -> None: ...

class DirectConnect(_message.Message):
    __slots__ = ("vlan", "customer_cidr", "next_hop_ip")
    VLAN_FIELD_NUMBER: _ClassVar[int]
    CUSTOMER_CIDR_FIELD_NUMBER: _ClassVar[int]
    NEXT_HOP_IP_FIELD_NUMBER: _ClassVar[int]
    vlan: int
    customer_cidr: str
    next_hop_ip: str
    def __init__(self, vlan: _Optional[int] = ..., customer_cidr: _Optional[str] = ..., next_hop_ip: _Optional[str] = ...) -> None: ...

class DeleteVpcRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteVpcReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DropUnknownVpcsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DropUnknownVpcsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListVpcsRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class ListVpcsReply(_message.Message):
    __slots__ = ("vpcs", "peerings", "isolation")
    VPCS_FIELD_NUMBER: _ClassVar[int]
    PEERINGS_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    vpcs: _containers.RepeatedCompositeFieldContainer[Vpc]
    peerings: _containers.RepeatedCompositeFieldContainer[Peering]
    isolation: _containers.RepeatedCompositeFieldContainer[VpcIsolation]
    def __init__(self, vpcs: _Optional[_Iterable[_Union[Vpc, _Mapping]]] = ..., peerings: _Optional[_Iterable[_Union[Peering, _Mapping]]] = ..., isolation: _Optional[_Iterable[_Union[VpcIsolation, _Mapping]]] = ...) -> None: ...

class VpcIsolation(_message.Message):
    __slots__ = ("vpc_id", "verdict", "why", "checked_unix_ms", "is_newest")
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    CHECKED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    IS_NEWEST_FIELD_NUMBER: _ClassVar[int]
    vpc_id: str
    verdict: str
    why: _containers.RepeatedScalarFieldContainer[str]
    checked_unix_ms: int
    is_newest: bool
    def __init__(self, vpc_id: _Optional[str] = ..., verdict: _Optional[str] = ..., why: _Optional[_Iterable[str]] = ..., checked_unix_ms: _Optional[int] = ..., is_newest: _Optional[bool] = ...) -> None: ...

class GetBorderRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Border(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[BorderRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[BorderRule, _Mapping]]] = ...) -> None: ...

class BorderRule(_message.Message):
    __slots__ = ("allow", "vpc", "network", "remote_cidr", "protocol", "port_min", "port_max")
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    VPC_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    REMOTE_CIDR_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PORT_MIN_FIELD_NUMBER: _ClassVar[int]
    PORT_MAX_FIELD_NUMBER: _ClassVar[int]
    allow: bool
    vpc: str
    network: str
    remote_cidr: str
    protocol: str
    port_min: int
    port_max: int
    def __init__(self, allow: _Optional[bool] = ..., vpc: _Optional[str] = ..., network: _Optional[str] = ..., remote_cidr: _Optional[str] = ..., protocol: _Optional[str] = ..., port_min: _Optional[int] = ..., port_max: _Optional[int] = ...) -> None: ...

class Peering(_message.Message):
    __slots__ = ("vpc_a", "vpc_b")
    VPC_A_FIELD_NUMBER: _ClassVar[int]
    VPC_B_FIELD_NUMBER: _ClassVar[int]
    vpc_a: str
    vpc_b: str
    def __init__(self, vpc_a: _Optional[str] = ..., vpc_b: _Optional[str] = ...) -> None: ...

class LoadBalancer(_message.Message):
    __slots__ = ("id", "tenant", "vip", "port", "protocol", "backends", "health_check", "vpc_id", "mode", "panic_when_all_down")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    VIP_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_CHECK_FIELD_NUMBER: _ClassVar[int]
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PANIC_WHEN_ALL_DOWN_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    vip: str
    port: int
    protocol: str
    backends: _containers.RepeatedCompositeFieldContainer[Backend]
    health_check: HealthCheck
    vpc_id: str
    mode: str
    panic_when_all_down: bool
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ..., vip: _Optional[str] = ..., port: _Optional[int] = ..., protocol: _Optional[str] = ..., backends: _Optional[_Iterable[_Union[Backend, _Mapping]]] = ..., health_check: _Optional[_Union[HealthCheck, _Mapping]] = ..., vpc_id: _Optional[str] = ..., mode: _Optional[str] = ..., panic_when_all_down: _Optional[bool] = ...) -> None: ...

class Backend(_message.Message):
    __slots__ = ("ip", "port", "weight", "draining", "healthy")
    IP_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    ip: str
    port: int
    weight: int
    draining: bool
    healthy: bool
    def __init__(self, ip: _Optional[str] = ..., port: _Optional[int] = ..., weight: _Optional[int] = ..., draining: _Optional[bool] = ..., healthy: _Optional[bool] = ...) -> None: ...

class HealthCheck(_message.Message):
    __slots__ = ("kind", "path", "interval_ms", "timeout_ms", "rise", "fall", "passive")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RISE_FIELD_NUMBER: _ClassVar[int]
    FALL_FIELD_NUMBER: _ClassVar[int]
    PASSIVE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    path: str
    interval_ms: int
    timeout_ms: int
    rise: int
    fall: int
    passive: bool
    def __init__(self, kind: _Optional[str] = ..., path: _Optional[str] = ..., interval_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., rise: _Optional[int] = ..., fall: _Optional[int] = ..., passive: _Optional[bool] = ...) -> None: ...

class DeleteLoadBalancerRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ListLoadBalancersReply(_message.Message):
    __slots__ = ("load_balancers",)
    LOAD_BALANCERS_FIELD_NUMBER: _ClassVar[int]
    load_balancers: _containers.RepeatedCompositeFieldContainer[LoadBalancer]
    def __init__(self, load_balancers: _Optional[_Iterable[_Union[LoadBalancer, _Mapping]]] = ...) -> None: ...

class GatewayReport(_message.Message):
    __slots__ = ("hello", "ack", "counters", "tables", "notice", "health")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    hello: GatewayHello
    ack: GatewayAck
    counters: GatewayCounters
    tables: TablesPart
    notice: GatewayNotice
    health: BackEndHealth
    def __init__(self, hello: _Optional[_Union[GatewayHello, _Mapping]] = ..., ack: _Optional[_Union[GatewayAck, _Mapping]] = ..., counters: _Optional[_Union[GatewayCounters, _Mapping]] = ..., tables: _Optional[_Union[TablesPart, _Mapping]] = ..., notice: _Optional[_Union[GatewayNotice, _Mapping]] = ..., health: _Optional[_Union[BackEndHealth, _Mapping]] = ...) -> None: ...

class GatewayHello(_message.Message):
    __slots__ = ("gateway_id", "kind", "vtep_ip", "partner", "provider_networks", "generation", "host_vtep_ip", "source_pools", "interfaces")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VTEP_IP_FIELD_NUMBER: _ClassVar[int]
    PARTNER_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_NETWORKS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HOST_VTEP_IP_FIELD_NUMBER: _ClassVar[int]
    SOURCE_POOLS_FIELD_NUMBER: _ClassVar[int]
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    kind: str
    vtep_ip: str
    partner: str
    provider_networks: _containers.RepeatedCompositeFieldContainer[ProviderNetwork]
    generation: int
    host_vtep_ip: str
    source_pools: _containers.RepeatedCompositeFieldContainer[SourcePool]
    interfaces: _containers.RepeatedCompositeFieldContainer[GatewayInterface]
    def __init__(self, gateway_id: _Optional[str] = ..., kind: _Optional[str] = ..., vtep_ip: _Optional[str] = ..., partner: _Optional[str] = ..., provider_networks: _Optional[_Iterable[_Union[ProviderNetwork, _Mapping]]] = ..., generation: _Optional[int] = ..., host_vtep_ip: _Optional[str] = ..., source_pools: _Optional[_Iterable[_Union[SourcePool, _Mapping]]] = ..., interfaces: _Optional[_Iterable[_Union[GatewayInterface, _Mapping]]] = ...) -> None: ...

class GatewayInterface(_message.Message):
    __slots__ = ("name", "ip", "cidr", "router_ip")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    CIDR_FIELD_NUMBER: _ClassVar[int]
    ROUTER_IP_FIELD_NUMBER: _ClassVar[int]
    name: str
    ip: str
    cidr: str
    router_ip: str
    def __init__(self, name: _Optional[str] = ..., ip: _Optional[str] = ..., cidr: _Optional[str] = ..., router_ip: _Optional[str] = ...) -> None: ...

class SourcePool(_message.Message):
    __slots__ = ("vpc_id", "ips")
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    IPS_FIELD_NUMBER: _ClassVar[int]
    vpc_id: str
    ips: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, vpc_id: _Optional[str] = ..., ips: _Optional[_Iterable[str]] = ...) -> None: ...

class BackEndHealth(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[BackEndState]
    def __init__(self, states: _Optional[_Iterable[_Union[BackEndState, _Mapping]]] = ...) -> None: ...

class BackEndState(_message.Message):
    __slots__ = ("load_balancer_id", "ip", "port", "up")
    LOAD_BALANCER_ID_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    load_balancer_id: str
    ip: str
    port: int
    up: bool
    def __init__(self, load_balancer_id: _Optional[str] = ..., ip: _Optional[str] = ..., port: _Optional[int] = ..., up: _Optional[bool] = ...) -> None: ...

class ProviderNetwork(_message.Message):
    __slots__ = ("network", "cidrs")
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    CIDRS_FIELD_NUMBER: _ClassVar[int]
    network: str
    cidrs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, network: _Optional[str] = ..., cidrs: _Optional[_Iterable[str]] = ...) -> None: ...

class GatewayAck(_message.Message):
    __slots__ = ("generation", "refused", "kept_vpcs", "unknown_vpcs")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KEPT_VPCS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_VPCS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    refused: str
    kept_vpcs: _containers.RepeatedCompositeFieldContainer[KeptVpc]
    unknown_vpcs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[int] = ..., refused: _Optional[str] = ..., kept_vpcs: _Optional[_Iterable[_Union[KeptVpc, _Mapping]]] = ..., unknown_vpcs: _Optional[_Iterable[str]] = ...) -> None: ...

class KeptVpc(_message.Message):
    __slots__ = ("vpc_id", "why")
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    vpc_id: str
    why: str
    def __init__(self, vpc_id: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class GatewayCounters(_message.Message):
    __slots__ = ("active", "ports", "drops", "punts", "connections", "nat_mappings", "balancer", "connections_limit", "nat_mappings_limit")
    class DropsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class PuntsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class BalancerEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    PUNTS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    NAT_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    BALANCER_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAT_MAPPINGS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    active: bool
    ports: _containers.RepeatedCompositeFieldContainer[PortCounters]
    drops: _containers.ScalarMap[str, int]
    punts: _containers.ScalarMap[str, int]
    connections: int
    nat_mappings: int
    balancer: _containers.ScalarMap[str, int]
    connections_limit: int
    nat_mappings_limit: int
    def __init__(self, active: _Optional[bool] = ..., ports: _Optional[_Iterable[_Union[PortCounters, _Mapping]]] = ..., drops: _Optional[_Mapping[str, int]] = ..., punts: _Optional[_Mapping[str, int]] = ..., connections: _Optional[int] = ..., nat_mappings: _Optional[int] = ..., balancer: _Optional[_Mapping[str, int]] = ..., connections_limit: _Optional[int] = ..., nat_mappings_limit: _Optional[int] = ...) -> None: ...

class GatewayNotice(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class PortCounters(_message.Message):
    __slots__ = ("name", "side", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "dropped_packets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    RX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    RX_BYTES_FIELD_NUMBER: _ClassVar[int]
    TX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    TX_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    side: str
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    dropped_packets: int
    def __init__(self, name: _Optional[str] = ..., side: _Optional[str] = ..., rx_packets: _Optional[int] = ..., rx_bytes: _Optional[int] = ..., tx_packets: _Optional[int] = ..., tx_bytes: _Optional[int] = ..., dropped_packets: _Optional[int] = ...) -> None: ...

class NetworkUpdate(_message.Message):
    __slots__ = ("generation", "whole", "more", "vpcs", "deleted_vpcs", "peerings", "border", "gateways", "tables_request", "load_balancers", "virtual_ips", "known_since", "incarnations")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    VPCS_FIELD_NUMBER: _ClassVar[int]
    DELETED_VPCS_FIELD_NUMBER: _ClassVar[int]
    PEERINGS_FIELD_NUMBER: _ClassVar[int]
    BORDER_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    TABLES_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOAD_BALANCERS_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_IPS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_SINCE_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    whole: bool
    more: bool
    vpcs: _containers.RepeatedCompositeFieldContainer[Vpc]
    deleted_vpcs: _containers.RepeatedScalarFieldContainer[str]
    peerings: PeeringList
    border: Border
    gateways: GatewayList
    tables_request: int
    load_balancers: LoadBalancerList
    virtual_ips: VirtualIpList
    known_since: int
    incarnations: _containers.RepeatedCompositeFieldContainer[Incarnations]
    def __init__(self, generation: _Optional[int] = ..., whole: _Optional[bool] = ..., more: _Optional[bool] = ..., vpcs: _Optional[_Iterable[_Union[Vpc, _Mapping]]] = ..., deleted_vpcs: _Optional[_Iterable[str]] = ..., peerings: _Optional[_Union[PeeringList, _Mapping]] = ..., border: _Optional[_Union[Border, _Mapping]] = ..., gateways: _Optional[_Union[GatewayList, _Mapping]] = ..., tables_request: _Optional[int] = ..., load_balancers: _Optional[_Union[LoadBalancerList, _Mapping]] = ..., virtual_ips: _Optional[_Union[VirtualIpList, _Mapping]] = ..., known_since: _Optional[int] = ..., incarnations: _Optional[_Iterable[_Union[Incarnations, _Mapping]]] = ...) -> None: ...

class Incarnations(_message.Message):
    __slots__ = ("vpc_id", "numbers")
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    vpc_id: str
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, vpc_id: _Optional[str] = ..., numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class LoadBalancerList(_message.Message):
    __slots__ = ("load_balancers",)
    LOAD_BALANCERS_FIELD_NUMBER: _ClassVar[int]
    load_balancers: _containers.RepeatedCompositeFieldContainer[LoadBalancer]
    def __init__(self, load_balancers: _Optional[_Iterable[_Union[LoadBalancer, _Mapping]]] = ...) -> None: ...

class VirtualIpList(_message.Message):
    __slots__ = ("virtual_ips",)
    VIRTUAL_IPS_FIELD_NUMBER: _ClassVar[int]
    virtual_ips: _containers.RepeatedCompositeFieldContainer[VirtualIp]
    def __init__(self, virtual_ips: _Optional[_Iterable[_Union[VirtualIp, _Mapping]]] = ...) -> None: ...

class VirtualIp(_message.Message):
    __slots__ = ("vpc_id", "ip", "vtep_ips", "back_end_ips")
    VPC_ID_FIELD_NUMBER: _ClassVar[int]
    IP_FIELD_NUMBER: _ClassVar[int]
    VTEP_IPS_FIELD_NUMBER: _ClassVar[int]
    BACK_END_IPS_FIELD_NUMBER: _ClassVar[int]
    vpc_id: str
    ip: str
    vtep_ips: _containers.RepeatedScalarFieldContainer[str]
    back_end_ips: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, vpc_id: _Optional[str] = ..., ip: _Optional[str] = ..., vtep_ips: _Optional[_Iterable[str]] = ..., back_end_ips: _Optional[_Iterable[str]] = ...) -> None: ...

class PeeringList(_message.Message):
    __slots__ = ("peerings", "incarnations")
    PEERINGS_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    peerings: _containers.RepeatedCompositeFieldContainer[Peering]
    incarnations: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, peerings: _Optional[_Iterable[_Union[Peering, _Mapping]]] = ..., incarnations: _Optional[_Iterable[int]] = ...) -> None: ...

class GatewayList(_message.Message):
    __slots__ = ("gateways",)
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    gateways: _containers.RepeatedCompositeFieldContainer[GatewayAddress]
    def __init__(self, gateways: _Optional[_Iterable[_Union[GatewayAddress, _Mapping]]] = ...) -> None: ...

class GatewayAddress(_message.Message):
    __slots__ = ("gateway_id", "vtep_ip")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    VTEP_IP_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    vtep_ip: str
    def __init__(self, gateway_id: _Optional[str] = ..., vtep_ip: _Optional[str] = ...) -> None: ...

class ListGatewaysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGatewaysReply(_message.Message):
    __slots__ = ("gateways", "generation")
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    gateways: _containers.RepeatedCompositeFieldContainer[GatewayStatus]
    generation: int
    def __init__(self, gateways: _Optional[_Iterable[_Union[GatewayStatus, _Mapping]]] = ..., generation: _Optional[int] = ...) -> None: ...

class GatewayStatus(_message.Message):
    __slots__ = ("hello", "attached", "sent_generation", "acknowledged_generation", "refused", "counters", "last_seen_unix_ms", "kept_vpcs", "unknown_vpcs")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    SENT_GENERATION_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    KEPT_VPCS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_VPCS_FIELD_NUMBER: _ClassVar[int]
    hello: GatewayHello
    attached: bool
    sent_generation: int
    acknowledged_generation: int
    refused: str
    counters: GatewayCounters
    last_seen_unix_ms: int
    kept_vpcs: _containers.RepeatedCompositeFieldContainer[KeptVpc]
    unknown_vpcs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, hello: _Optional[_Union[GatewayHello, _Mapping]] = ..., attached: _Optional[bool] = ..., sent_generation: _Optional[int] = ..., acknowledged_generation: _Optional[int] = ..., refused: _Optional[str] = ..., counters: _Optional[_Union[GatewayCounters, _Mapping]] = ..., last_seen_unix_ms: _Optional[int] = ..., kept_vpcs: _Optional[_Iterable[_Union[KeptVpc, _Mapping]]] = ..., unknown_vpcs: _Optional[_Iterable[str]] = ...) -> None: ...

class ForgetGatewayRequest(_message.Message):
    __slots__ = ("gateway_id",)
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    def __init__(self, gateway_id: _Optional[str] = ...) -> None: ...

class ForgetGatewayReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadTablesRequest(_message.Message):
    __slots__ = ("gateway_id",)
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    def __init__(self, gateway_id: _Optional[str] = ...) -> None: ...

class TablesPart(_message.Message):
    __slots__ = ("request", "data", "last", "refused")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    request: int
    data: bytes
    last: bool
    refused: str
    def __init__(self, request: _Optional[int] = ..., data: _Optional[bytes] = ..., last: _Optional[bool] = ..., refused: _Optional[str] = ...) -> None: ...

class ProbeReport(_message.Message):
    __slots__ = ("hello", "replies")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    hello: ProbeHello
    replies: ProbeReplies
    def __init__(self, hello: _Optional[_Union[ProbeHello, _Mapping]] = ..., replies: _Optional[_Union[ProbeReplies, _Mapping]] = ...) -> None: ...

class ProbeHello(_message.Message):
    __slots__ = ("host", "nics", "rate_pps")
    HOST_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    RATE_PPS_FIELD_NUMBER: _ClassVar[int]
    host: str
    nics: _containers.RepeatedCompositeFieldContainer[ProbeNic]
    rate_pps: int
    def __init__(self, host: _Optional[str] = ..., nics: _Optional[_Iterable[_Union[ProbeNic, _Mapping]]] = ..., rate_pps: _Optional[int] = ...) -> None: ...

class ProbeNic(_message.Message):
    __slots__ = ("ip", "device", "mesh", "sids")
    IP_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MESH_FIELD_NUMBER: _ClassVar[int]
    SIDS_FIELD_NUMBER: _ClassVar[int]
    ip: str
    device: str
    mesh: bool
    sids: bool
    def __init__(self, ip: _Optional[str] = ..., device: _Optional[str] = ..., mesh: _Optional[bool] = ..., sids: _Optional[bool] = ...) -> None: ...

class ProbeOrder(_message.Message):
    __slots__ = ("order_id", "src_ip", "questions", "rate_pps", "timeout_ms", "qpn", "dscp", "mesh", "sids", "srv6_source")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    SRC_IP_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    RATE_PPS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    QPN_FIELD_NUMBER: _ClassVar[int]
    DSCP_FIELD_NUMBER: _ClassVar[int]
    MESH_FIELD_NUMBER: _ClassVar[int]
    SIDS_FIELD_NUMBER: _ClassVar[int]
    SRV6_SOURCE_FIELD_NUMBER: _ClassVar[int]
    order_id: int
    src_ip: str
    questions: _containers.RepeatedCompositeFieldContainer[ProbeQuestion]
    rate_pps: float
    timeout_ms: int
    qpn: int
    dscp: int
    mesh: _containers.RepeatedCompositeFieldContainer[MeshProbe]
    sids: _containers.RepeatedScalarFieldContainer[str]
    srv6_source: str
    def __init__(self, order_id: _Optional[int] = ..., src_ip: _Optional[str] = ..., questions: _Optional[_Iterable[_Union[ProbeQuestion, _Mapping]]] = ..., rate_pps: _Optional[float] = ..., timeout_ms: _Optional[int] = ..., qpn: _Optional[int] = ..., dscp: _Optional[int] = ..., mesh: _Optional[_Iterable[_Union[MeshProbe, _Mapping]]] = ..., sids: _Optional[_Iterable[str]] = ..., srv6_source: _Optional[str] = ...) -> None: ...

class MeshProbe(_message.Message):
    __slots__ = ("dst_ip", "port", "reply_port")
    DST_IP_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    REPLY_PORT_FIELD_NUMBER: _ClassVar[int]
    dst_ip: str
    port: int
    reply_port: int
    def __init__(self, dst_ip: _Optional[str] = ..., port: _Optional[int] = ..., reply_port: _Optional[int] = ...) -> None: ...

class ProbeQuestion(_message.Message):
    __slots__ = ("dst_ip", "port", "ttl")
    DST_IP_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    dst_ip: str
    port: int
    ttl: int
    def __init__(self, dst_ip: _Optional[str] = ..., port: _Optional[int] = ..., ttl: _Optional[int] = ...) -> None: ...

class ProbeReplies(_message.Message):
    __slots__ = ("order_id", "sent", "replies", "refused", "mesh_rtt_us", "late")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    MESH_RTT_US_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    order_id: int
    sent: int
    replies: _containers.RepeatedCompositeFieldContainer[ProbeReply]
    refused: str
    mesh_rtt_us: _containers.RepeatedScalarFieldContainer[int]
    late: bool
    def __init__(self, order_id: _Optional[int] = ..., sent: _Optional[int] = ..., replies: _Optional[_Iterable[_Union[ProbeReply, _Mapping]]] = ..., refused: _Optional[str] = ..., mesh_rtt_us: _Optional[_Iterable[int]] = ..., late: _Optional[bool] = ...) -> None: ...

class ProbeReply(_message.Message):
    __slots__ = ("question", "router_ip")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ROUTER_IP_FIELD_NUMBER: _ClassVar[int]
    question: ProbeQuestion
    router_ip: str
    def __init__(self, question: _Optional[_Union[ProbeQuestion, _Mapping]] = ..., router_ip: _Optional[str] = ...) -> None: ...
