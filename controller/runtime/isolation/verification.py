"""Verify the tables of one gateway or balancer against the wanted networks; pure.

A process beside the controller runs it. Tables come from a peer: they are bounded before they are decoded, and what is
wrong with them is a text.
"""

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Set

from heddle.controller.brain.networks.publishing import for_balancer, for_gateway
from heddle.controller.runtime.isolation.wire import Found, Verify
from heddle.dataplane.balancer.compiler.archive import unpacked as services_in
from heddle.dataplane.config.desired import Desired, Kind
from heddle.dataplane.tables.compiler.archive import unpacked
from heddle.dataplane.verify.compare import Finding
from heddle.dataplane.verify.report import local_of, verify
from heddle.dataplane.verify.services import service_findings

MAX_UNPACKED_BYTES = 256 << 20
MAX_TEXTS = 20
"""The paths of one VPC that are reported."""
MAX_TEXT = 400
_VPC = re.compile(r"\bvpc ([A-Za-z0-9][A-Za-z0-9._-]*)")


def verified(request: Verify) -> Found:
    """Return what differs from the intent; `request.networks` has the VPCs too."""
    try:
        _check_size(request.tables)
        known = request.networks.gateways[request.name]
        if known.kind is Kind.BALANCER:
            desired = for_balancer(request.networks, request.name, known)
            tables = services_in(request.tables)
            findings = service_findings(tables, desired.network, desired.load_balancers)
            return found_in(findings, desired, kept=known.kept.keys())
        desired = for_gateway(request.networks, request.name, known)
        held = unpacked(request.tables)
        partner = request.networks.gateways.get(request.partner)
        partners = (partner.vtep,) if partner is not None else ()
        report = verify(
            held,
            local_of(request.name, request.provider_networks, held),
            desired.network,
            partners,
            desired.virtual_ips,
        )
        return found_in(report.findings, desired, report.left_out, known.kept.keys())
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        return Found(failure=f"its tables are inconsistent: {error!r}"[:MAX_TEXT])


def found_in(findings: Iterable[Finding], desired: Desired, left_out: int = 0, kept: Set[str] = frozenset()) -> Found:
    """Return findings by the VPCs that they name; one that names none concerns every VPC.

    Those that name a VPC in `kept` are left out: what the gateway serves of it is not the intended state, and it has
    said why.
    """
    vpcs = frozenset(vpc.id for vpc in desired.network.vpcs)
    differing: defaultdict[str, list[str]] = defaultdict(list)
    total = left_out
    for finding in findings:
        named = {name.rstrip(".") for name in _VPC.findall(f"{finding.source} {finding.target}")} & vpcs
        if named & kept:
            continue
        total += 1
        for vpc in named or vpcs:
            if len(differing[vpc]) < MAX_TEXTS:
                differing[vpc].append(str(finding)[:MAX_TEXT])
    return Found(
        vpcs=vpcs,
        differing={vpc: tuple(texts) for vpc, texts in differing.items()},
        total=total,
        is_whole=not left_out,
    )


def _check_size(data: bytes) -> None:
    """Raise ValueError for tables that are larger than any gateway's."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from None
    if size > MAX_UNPACKED_BYTES:
        raise ValueError(f"tables of more than {MAX_UNPACKED_BYTES >> 20} MiB")
