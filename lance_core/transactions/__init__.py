"""Transactions: describe a change to a table, and commit it."""
