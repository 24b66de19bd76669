"""Provide small pure values that every program uses: retry delays and address texts. Imports nothing of ours."""
