"""From the bus to signals: the asyncio half of the collector. `telemetry.observer` is the pure half."""
