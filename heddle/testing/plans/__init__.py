"""An independent check of plans by the contract's sentences; it imports nothing of what it checks."""
