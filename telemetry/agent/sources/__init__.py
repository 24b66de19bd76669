"""Sources of counters, one module for each origin; `telemetry.agent.source` defines their interface."""
