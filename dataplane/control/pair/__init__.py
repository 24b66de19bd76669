"""High availability of two gateways: heartbeats, ownership of roles, copies of connections. Pure."""
