"""Store telemetry history in SQLite, across restarts of the controller."""
