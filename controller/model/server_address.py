"""Where a service listens and is found: ADDR:PORT; for gRPC also unix:/PATH, a socket in the file system.

A socket needs no network: processes in other network namespaces of one machine reach it, and only this user's.
"""

UNIX = "unix:"
MAX_PATH_BYTES = 107
"""A socket's path has 108 bytes, the last of them zero (unix(7))."""


def is_address_port(text: str) -> bool:
    """Say whether a text is ADDR:PORT, port 0 for any."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and int(port) <= 65_535 and not text.startswith(UNIX)


def is_socket(text: str) -> bool:
    """Say whether a text is unix:/PATH, absolute and short enough for the kernel."""
    path = text.removeprefix(UNIX)
    return text.startswith(UNIX) and path.startswith("/") and "\0" not in path and len(path.encode()) <= MAX_PATH_BYTES


def split_address(text: str) -> tuple[str, int]:
    """Cut a checked ADDR:PORT in two; brackets around an IPv6 address go."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
