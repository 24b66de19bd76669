"""Host resources of a lab: namespaces, child processes, locks, sysctls, signals, priorities."""
