"""The steps of a run: each reads its configuration, calls the library, and reports."""
