"""What an operator sees and may do: the `noctaya` commands for people, and `Client` and `AsyncClient` for programs.

Reading asks the workers' admin ports, which are read-only and answer on loopback alone (`kubectl port-forward`, run by us).
Changing writes an annotation with the caller's own Kubernetes credentials, which the leader obeys: RBAC decides who may.
Nothing here may decide about shards, and no role imports it. The names are imported where they are used (`from noctaya import
Client`), because `cli` imports this package at every start.
"""
