"""Make the parts of a controller that its configuration describes."""

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_network
from pathlib import Path

from heddle.controller.access.audit_file import AuditFile
from heddle.controller.access.guard import Access
from heddle.controller.brain.state import State
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.cabling.merging import HeardBy
from heddle.controller.config.load import parse_jobs
from heddle.controller.config.service import ServiceConfig
from heddle.controller.config.telemetry import broker_of, detector_settings, ports_of
from heddle.controller.dashboard.access.login import AccessRules
from heddle.controller.dashboard.page_tls import PageFiles, PageTls
from heddle.controller.model.effect import Note
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.event import Heard
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.server_address import split_address
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.probe_sessions.service import Probing, probing_of
from heddle.controller.probe_sessions.sessions import ProbeAgents
from heddle.controller.recording.recorder import Recorder
from heddle.controller.runtime.collecting import Collecting
from heddle.controller.runtime.compiling.compiler import ProcessCompiler
from heddle.controller.runtime.fabric_apply import follow
from heddle.controller.runtime.heard import HeardPeers, ReportedPeers
from heddle.controller.runtime.journal import fitting
from heddle.controller.runtime.journal.restart import why_unfit
from heddle.controller.runtime.judged_cables import JudgedCables
from heddle.controller.runtime.leadership import ClusterCounts, Leadership
from heddle.controller.runtime.loop import Loop
from heddle.controller.runtime.planning.pool import PlannerPool
from heddle.controller.runtime.telemetry import Telemetry
from heddle.controller.southbound.lldp.discovery import Discovery
from heddle.controller.southbound.lldp.frame import KEY_BYTES
from heddle.controller.store.database import Retention
from heddle.controller.store.etcd.candidacy import OwnFile
from heddle.controller.store.etcd.client import EtcdClient
from heddle.controller.store.etcd.identity.memory import Memory
from heddle.controller.store.etcd.member import ClusterMember
from heddle.controller.store.etcd.term import Leader
from heddle.controller.store.etcd.tls import EtcdTls
from heddle.controller.store.history import SqliteHistory
from heddle.controller.store.state_directory import NONE, StateDirectory
from heddle.controller.views.fabric_differences import Setup
from heddle.foundation.certificate import CertificateError
from heddle.foundation.identity import Role
from heddle.foundation.tls_files import Tls
from heddle.telemetry.observer import Observer

_LOG = logging.getLogger("heddle.controller")


@contextmanager
def state_directory(config: ServiceConfig) -> Iterator[StateDirectory | None]:
    """Hold the state directory, if one is configured; raises HeddleError."""
    directory = StateDirectory(Path(config.state)) if config.state not in (None, NONE) else None
    try:
        yield directory
    finally:
        if directory is not None:
            directory.close()


def history(config: ServiceConfig) -> SqliteHistory | None:
    """Open the history file, if one is configured; raises PrerequisiteError."""
    retention = Retention(max_bytes=config.history_megabytes << 20)
    return SqliteHistory(Path(config.history), retention) if config.history else None


def recorder(config: ServiceConfig) -> Recorder | None:
    """Begin a recording, if one is configured; raises PrerequisiteError."""
    return Recorder(Path(config.record), config.record_megabytes << 20) if config.record else None


def audit_file(config: ServiceConfig) -> AuditFile | None:
    """Open the audit file, if there is to be one; raises HeddleError."""
    path = config.audit
    if path is None and config.state not in (None, NONE):
        path = str(Path(config.state or "") / "audit.jsonl")
    return AuditFile(Path(path), config.audit_megabytes << 20) if path not in (None, NONE) else None


def access_rules(config: ServiceConfig, callers: Access) -> AccessRules:
    """Return what the page requires of a caller: login, trusted proxy or certificate, and known names."""
    access = config.http_access
    return AccessRules(
        hosts=frozenset({split_address(config.http)[0], *access.hosts}),
        has_tls=access.certificate is not None or config.tls.is_on,
        user=access.user,
        password_hash=access.password_hash,
        proxy_header=access.proxy_header,
        may_act=lambda user: callers.policy.role_of_user(user) is Role.OPERATOR,
        proxies=tuple(map(ip_network, access.proxies)),
        has_certificates=config.tls.is_on,
    )


def page_tls(config: ServiceConfig, callers: Tls | None) -> PageTls | None:
    """Return the TLS of the page, if a certificate is configured; raises PrerequisiteError."""
    access = config.http_access
    certificate, key = access.certificate or config.tls.certificate, access.key or config.tls.key
    if certificate is None or key is None:
        return None
    files = PageFiles(
        certificate=Path(certificate), key=Path(key), ca=Path(config.tls.ca) if config.tls.ca is not None else None
    )
    try:
        return PageTls(files, callers, _LOG.error)
    except CertificateError as error:
        raise PrerequisiteError(f"http_access: certificate or key cannot be used: {error}") from None


def probing(loop: Loop, agents: ProbeAgents, note: Callable[[Note], None], config: ServiceConfig) -> Probing:
    """Return the port searches, checks and samples of a fabric that hashes."""
    return probing_of(
        loop.state.fabric, agents, lambda: {name: job.flows for name, job in loop.state.jobs.items()},
        loop.post, note, switch_pps=config.probes_per_switch_pps, samples_pps=config.samples_per_switch_pps,
    )  # fmt: skip


def discovery(fabric: Fabric, peers: HeardPeers) -> Discovery:
    """Return what hears the cabling of switches; its frames are signed by a key that only this process has."""

    def post(event: Heard) -> bool:
        return peers.hear(HeardBy.OPENFLOW, event.changes)

    return Discovery(fabric, secrets.token_bytes(KEY_BYTES), post, time.monotonic)


def reported_peers(state: State, peers: HeardPeers) -> ReportedPeers | None:
    """Return what takes the neighbours that agents report, None where OpenFlow hears and the broker is not trusted."""
    if traits_of(state.fabric).has_sessions and not state.settings.acts_on_telemetry:
        return None
    return ReportedPeers(state.fabric, peers)


def _own_file(fabric: Fabric) -> OwnFile:
    """Return what one of several controllers compares with the journal before it stands for election."""
    return OwnFile(key=fitting.WHOLE, follow=partial(follow, fabric), why_unfit=partial(why_unfit, fabric))


def member(
    config: ServiceConfig, fabric: Fabric, leadership: Leadership, counts: ClusterCounts, memory: Memory
) -> ClusterMember | None:
    """Return a controller's part in a cluster, None where it is alone; raises InputError."""
    cluster = config.cluster
    if cluster.name is None or cluster.advertise is None:
        return None
    files = cluster.tls_files(config.tls)
    try:
        tls = EtcdTls(files, _LOG.error) if files is not None else None
    except CertificateError as error:
        raise InputError(f"cluster: {error}") from None
    return ClusterMember(
        EtcdClient(cluster.endpoints, tls, counts), fabric.name, Leader(name=cluster.name, address=cluster.advertise),
        leadership, _own_file(fabric), memory, lease_s=cluster.lease_s, counts=counts,
    )  # fmt: skip


def setup_of(config: ServiceConfig) -> Setup:
    """Return what the configuration says of copies of the fabric file."""
    return Setup(
        has_tls=config.tls.is_on,
        has_broker=config.telemetry.broker is not None,
        is_one_of_several=config.cluster.is_on,
    )


def collecting(
    fabric: Fabric, config: ServiceConfig, telemetry: Telemetry, loop: Loop, peers: HeardPeers, judged: JudgedCables
) -> Collecting | None:
    """Return the telemetry collector, None if no broker is configured; raises InputError."""
    broker = broker_of(config.telemetry, config.tls)
    if broker is None:
        return None
    from heddle.telemetry.collector.mqtt import MqttBus  # a twentieth of the start, for a broker alone

    telemetry.configured = True
    observer = Observer(fabric.name, ports_of(fabric), detector_settings(config.telemetry))
    return Collecting(observer, MqttBus(broker), telemetry, loop, reported_peers(loop.state, peers), judged)


def jobs_in(text: str, fabric: Fabric) -> tuple[JobRequest, ...]:
    """Return the jobs in the text of a jobs file; raises InputError."""
    return parse_jobs(text, "jobs", fabric)


def processes(fabric: Fabric) -> tuple[PlannerPool, ProcessCompiler]:
    """Return the planner and the compiler of a fabric, as processes of their own, not started."""
    return PlannerPool(fabric, steering_of(fabric).completed), ProcessCompiler(fabric)
