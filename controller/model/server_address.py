"""Parse addresses of services: ADDR:PORT; for gRPC also unix:/PATH, a socket file.

Processes in other network namespaces of the machine reach a socket file, but only those of this user.
"""

UNIX = "unix:"
MAX_PATH_BYTES = 107
"""The limit of sun_path: 108 bytes with the final zero byte (unix(7))."""


def is_address_port(text: str) -> bool:
    """Return whether a text is ADDR:PORT; port 0 means any."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and int(port) <= 65_535 and not text.startswith(UNIX)


def is_socket(text: str) -> bool:
    """Return whether a text is unix:/PATH, absolute and at most MAX_PATH_BYTES long."""
    path = text.removeprefix(UNIX)
    return text.startswith(UNIX) and path.startswith("/") and "\0" not in path and len(path.encode()) <= MAX_PATH_BYTES


def split_address(text: str) -> tuple[str, int]:
    """Split a checked ADDR:PORT; brackets around an IPv6 address are removed."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def address_text(host: str, port: int) -> str:
    """Return ADDR:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
