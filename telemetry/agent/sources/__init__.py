"""Where counters come from, one file per origin; `telemetry.agent.source` says what a source is."""
