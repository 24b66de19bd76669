"""The HTTP edge, a reader of snapshots: metrics for Prometheus, a health check, and a page that says what runs."""
