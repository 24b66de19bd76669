"""Read YAML text and validate it with pydantic: every problem names the file, the key's path and the remedy."""
