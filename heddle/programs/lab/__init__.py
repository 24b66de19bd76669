"""The commands `heddle lab` and `heddle demo`: their options."""
