"""Helpers of the tests: paths to data, difficult text, and slow, readable twins to compare with."""
