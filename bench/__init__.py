"""Measurements: each prints a table for docs/performance.md. Ratios within one run, since the machines are shared and noisy."""
