"""Name the limits that protect clients, switches and agents from each other; the metrics count each."""

from enum import Enum


class Limit(Enum):
    """The port where a limit holds, and its name."""

    RATE = ("grpc", "rate")
    CALLS = ("grpc", "calls")
    STREAMS = ("grpc", "streams")
    UNREAD = ("grpc", "unread_bytes")
    LARGE_REQUESTS = ("grpc", "large_requests")
    SWITCH_CONNECTIONS = ("openflow", "connections")
    SWITCH_PEER = ("openflow", "connections_of_a_peer")
    SWITCH_GAVE_WAY = ("openflow", "gave_way")
    SWITCH_HANDSHAKE = ("openflow", "handshake_timeout")
    WEB_CONNECTIONS = ("http", "connections")
    WEB_GAVE_WAY = ("http", "gave_way")
    WEB_TIMEOUT = ("http", "timeout")
    INBOX = ("inbox", "share")
    HEARD_PORTS = ("cabling", "heard_ports")
