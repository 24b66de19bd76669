"""One file per protocol: where its fields are, how they are read, checked and written."""
