"""Read the headers of every accepted packet into its row."""
