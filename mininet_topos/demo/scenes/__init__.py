"""Scenes of the demo: something happens to the fabric, and the controller's loop reacts."""
