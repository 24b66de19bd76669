"""The decisions: `decide(state, event, now)` returns the next state and the effects, and does nothing itself."""
