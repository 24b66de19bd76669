"""The status of a running gateway or balancer: read it, and word what both have."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heddle.controller.model.error import NotFoundError
from heddle.dataplane.control.status_socket import StatusSocketError, read_status, socket_path


def status_of(name: str, runtime_dir: Path) -> dict[str, Any]:
    """Return the status of a running program; raises NotFoundError if it does not reply."""
    try:
        return read_status(socket_path(runtime_dir, name))
    except StatusSocketError as error:
        raise NotFoundError(str(error)) from None


def fate_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the packets that were dropped or punted, by reason, and what the slow path did with them."""
    for title, rows in (("dropped", found["drops"]), ("punted", found["punts"]), ("slow path", found["slow_path"])):
        for name, count in rows.items():
            yield f"{title}: {name.replace('_', ' ')} {count:,}"


def table_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield how full the tables are that traffic fills."""
    for name, table in found["tables"].items():
        yield f"{name.replace('_', ' ')}: {table['used']:,} of {table['room']:,}"


def deviation_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the VPCs that are not served as the controller wants, and those that it does not know."""
    for vpc, why in found["kept_vpcs"].items():
        yield f"vpc {vpc}: {why}"
    if found["unknown_vpcs"]:
        yield f"VPCs that the controller does not know, and that stay in force: {', '.join(found['unknown_vpcs'])}"
