"""Access control: the identity of a caller, its permissions and its scope, and the audit trail."""
