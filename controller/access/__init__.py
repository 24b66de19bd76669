"""Who calls, what that caller may do and see, and the audit trail."""
