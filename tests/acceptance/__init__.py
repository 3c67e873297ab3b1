"""The product as users run it: `kubectl apply -k` on a real Kubernetes with a real KEDA, in containers (docs/compatibility.md)."""
