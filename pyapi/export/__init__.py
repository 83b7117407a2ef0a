"""Captures in the formats of other tools."""
