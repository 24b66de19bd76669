"""Where the node's agent and the programs of its jobs meet."""

SOCKET = "/run/heddle-ports/socket"
FOLDER = "/var/lib/heddle-ports"
"""Of the library: /run is mounted noexec on many hosts."""
LIBRARY = "port-shim.so"
