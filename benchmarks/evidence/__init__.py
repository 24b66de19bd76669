"""`make evidence`: measure every claim of README again and say whether it holds; docs/evidence.md."""
