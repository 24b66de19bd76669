"""The data process: its memory, its supervisor, and the messages between the two."""
