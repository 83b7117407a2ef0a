"""Analyses as text and JSON. Renderers never compute."""
