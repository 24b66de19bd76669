"""The controller, its southbound and its telemetry, on real switches, in the lab or on a real broker."""
