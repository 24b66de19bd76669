"""Several controllers over etcd: a small client, the journal, the election of the leader."""
