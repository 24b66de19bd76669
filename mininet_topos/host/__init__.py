"""What a lab needs from the host: namespaces, child processes, locks, sysctls, signals, priorities."""
