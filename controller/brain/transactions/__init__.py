"""Transactions: what is planned for callers and after changes of the fabric, until switches hold it."""
