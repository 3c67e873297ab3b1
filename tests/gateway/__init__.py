"""The gateway: pure cores under virtual time, and the whole of it against a fake worker and a scripted engine."""
