"""What of a desired state is put into force where a part of it cannot be: the rest of it, and the state before."""
