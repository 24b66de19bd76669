"""The programs `heddle agent` and `heddle agent probe`: their options, and what starts them."""
