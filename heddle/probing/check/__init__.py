"""Can a fabric be steered by its hash? Questions for first contact with a leaf, and conclusions from replies."""
