"""The embedded cluster: a small Kubernetes on one machine, for a laptop and for quick tests.

An API server, a few controllers, a node agent that runs containers as processes, and a stand-in for KEDA, all in one
process; workers and gateways run on it exactly as they run on a real cluster. It must never be imported by a production
role, and it is not for production: where fidelity would cost much code, the feature is left out and tested on the real thing.
"""
