"""Noctaya puts thousands of rarely used LLMs to sleep on Kubernetes and wakes one when a request for it arrives.

The packages are the architecture; imports point down only (`pyproject.toml`, import-linter):

    cli → ops, local → workers, gateway → leader, cache → kube → wire, api → telemetry, settings → errors
"""

__version__ = "0.1.0"
