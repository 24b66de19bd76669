"""The JSON documents of the HTTP interface, derived from frozen states. They run in a thread."""
