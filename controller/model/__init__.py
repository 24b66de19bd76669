"""Define the frozen values that all packages share: fabric, jobs, plans, rules, events, effects, errors."""
