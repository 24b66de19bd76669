"""Try another fabric file beside a controller, in a process of its own."""
