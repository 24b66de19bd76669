"""The journal: durable values as bytes, the thread that writes them, and what waits until they are written."""
