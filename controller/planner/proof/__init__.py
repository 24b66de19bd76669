"""Measure a plan and bound it: lower bounds, link loads, ECMP's figures, deadlock freedom, max-min rates."""
