"""The on-disk cache of compiled kernels, shared by planner, telemetry, dataplane and benchmarks."""
