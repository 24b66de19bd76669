"""The tables of one generation: their schema, and how kernels search them."""
