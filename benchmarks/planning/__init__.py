"""The planner beside its peers and beside its own lower bounds: time, quality, memory, growth."""
