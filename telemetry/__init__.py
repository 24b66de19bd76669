"""Port and NIC telemetry: samples of counters, their transport over MQTT, windows over them, and the detector."""

if __name__ != "heddle.telemetry":
    raise ImportError("this package is heddle.telemetry: import it by that name")
