"""The public form of records: classes with the names and arguments of the reference, and conversions to and from it."""
