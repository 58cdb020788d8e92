"""Tests of the fingerprint builder."""
