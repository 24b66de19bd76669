"""The asyncio half of the collector: connection and worker thread. `telemetry.observer` is the pure half."""
