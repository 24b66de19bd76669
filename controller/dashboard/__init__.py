"""The HTTP interface: metrics for Prometheus, a health check and a status page, rendered from snapshots."""
