"""Map endpoints to interfaces by interface alias: `ip link set tap-red1 alias heddle:100/02:00:00:00:00:01`.

The program that creates an endpoint's interface (a hypervisor, a container runtime) writes VNI and MAC into its alias,
so the agent needs no option for it. Options take precedence over aliases. Of two interfaces that claim one endpoint the
first by name gets it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from heddle.dataplane.config.limit import MAX_VNI

Endpoint = tuple[int, int]
"""VNI and MAC."""
SIGN = "heddle:"
_ENDPOINT = re.compile(r"(\d{1,8})/([0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5})")


def endpoint_of(text: str) -> Endpoint | None:
    """Parse `VNI/MAC`; None if the text is malformed."""
    match = _ENDPOINT.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= MAX_VNI:
        return None
    return int(match[1]), int(match[2].replace(":", ""), 16)


def claimed(
    links: Iterable[Mapping[str, Any]], configured: Mapping[Endpoint, str]
) -> tuple[dict[Endpoint, str], list[str]]:
    """Return the interface of each endpoint, and a line for each claim that is ignored.

    Args:
        links: interfaces in the form of `ip -j link show`.
        configured: interfaces by endpoint from the agent's options.
    """
    found, ignored = dict(configured), []
    for name, alias in sorted((link.get("ifname", ""), link.get("ifalias", "")) for link in links):
        if not alias.startswith(SIGN):
            continue
        endpoint = endpoint_of(alias.removeprefix(SIGN))
        if endpoint is None:
            ignored.append(f"{name}: alias {alias[:60]!r} is not {SIGN}VNI/MAC, such as {SIGN}100/02:00:00:00:00:01")
        elif found.setdefault(endpoint, name) != name:
            ignored.append(f"{name}: its endpoint {alias.removeprefix(SIGN)} is {found[endpoint]}'s already")
        elif name in configured.values() and configured.get(endpoint) != name:
            del found[endpoint]
            ignored.append(f"{name}: is another endpoint's by option --port")
    return found, ignored
