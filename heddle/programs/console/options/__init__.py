"""Options of the commands: what their flags mean, and the objects they make."""
