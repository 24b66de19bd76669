"""Which etcd has a fabric's journal, and whether the one that replies is that one."""
