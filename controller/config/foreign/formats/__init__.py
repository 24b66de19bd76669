"""Readers of foreign topology formats: a module each, with `looks_like(text)` and `read(text, draft, options)`."""
