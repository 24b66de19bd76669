"""The shell around the brain: one task owns the state, everything else posts events and awaits answers."""
