"""Hear the cabling, judge it beside the loop, and leave wrong cables out of use."""
