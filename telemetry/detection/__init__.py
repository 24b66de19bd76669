"""Detect conditions from samples: rolling windows, growth per period, thresholds, signals. Pure."""
