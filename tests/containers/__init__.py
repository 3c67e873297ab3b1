"""Noctaya's own image: what is in it, and that it boots as containers, read-only and as nobody.

Run by `make test-cluster` (`-m containers`). Building needs no container engine; booting needs Docker: `DOCKER_HOST` names
one, else root with `dockerd` (Debian: `docker.io`) starts one that leaves nothing behind. Nothing is pulled but K3s.
"""
