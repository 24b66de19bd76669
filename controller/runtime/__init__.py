"""Run the brain: one task owns the state, all other code posts events and awaits replies."""
