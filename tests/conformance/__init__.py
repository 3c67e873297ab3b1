"""One suite for both API servers: what Noctaya and kubectl rely on, asked of the embedded server and of Kubernetes' own.

A test says what Kubernetes does, and the embedded server must do the same. Where it may do otherwise, the difference has an
entry in `differences.py`, and the test pins both behaviours: an entry that describes no difference any more fails.
"""
