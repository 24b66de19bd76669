"""The programs of a lab: its controller and the client of it, its broker, its telemetry agent."""
