"""Turn the counts of a demo run into results: per flow, per run, per workload, and the verdict."""
