"""Several controllers over etcd, what is done to them, and the check of what clients saw."""
