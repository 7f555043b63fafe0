"""The steps of a run: each unpacks its configuration, calls the library, and reports."""
