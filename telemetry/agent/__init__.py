"""Telemetry agents: read cumulative counters of switches and NICs and publish them over MQTT."""
