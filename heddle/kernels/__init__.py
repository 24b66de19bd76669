"""How kernels are compiled, and their cache on disk, shared by planner, telemetry, dataplane and benchmarks."""
