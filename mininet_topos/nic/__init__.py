"""The lab's RDMA NIC: one small process per NIC in its host's network namespace; see docs/lab-nic.md."""
