"""Port and NIC telemetry: samples of counters, their transport over MQTT, windows over them, and the detector."""
