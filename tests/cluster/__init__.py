"""A real Kubernetes and a real KEDA on this machine, for the tests that an API server of our own cannot answer for.

Nothing comes from an image registry: programs are built from Go modules once and kept in a cache (`binaries`), images are
put together from files of this machine (`image`). Two modes:

- *node* (root): API server, controllers, kubelet, containerd, DNS and KEDA as pods, in process, mount and network
  namespaces of their own. The cluster's first process ends → the kernel ends all of it: nothing can stay behind.
- *quick* (no root): the control plane and KEDA as plain processes on loopback, without a node.

`python -m tests.cluster up|down|status|exec|build` by hand; the fixture `cluster` in tests. It must never touch another
cluster: it reads no kubeconfig but its own, and ends only processes that it started.
"""
