"""Tests that share one Spark session; a package, so that the session ends with its last test."""
