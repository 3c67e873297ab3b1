"""Pods that are about to be deleted because their Deployment wants none any more. Pure.

From KEDA's write of zero replicas to the moment at which the pods themselves say that they are being deleted, two controllers
have to act: tenths of a second, more on a busy control plane. A request that is forwarded meanwhile dies with its pod; one
that is held wakes the model again. So these pods count as terminating from the zero on.

Invariant: only pods that were there when the zero was seen are doomed, so that a Deployment that is told late never keeps
requests from the pods of the next wake.
"""

from __future__ import annotations

from collections.abc import Iterable


class Doomed:
    """By service (`namespace/name`): the uids of such pods."""

    def __init__(self) -> None:
        self._pods: dict[str, frozenset[str]] = {}

    def wanted(self, key: str, replicas: int, pods: Iterable[str]) -> bool:
        """A Deployment wants so many replicas, and these are the pods now; returns whether its pods are to be looked at anew."""
        if replicas > 0:
            return self._pods.pop(key, None) is not None
        found = self._pods.get(key, frozenset()) | frozenset(pods)
        if not found or found == self._pods.get(key):
            return False
        self._pods[key] = found
        return True

    def among(self, key: str, pods: Iterable[str]) -> frozenset[str]:
        """Which of the pods that are there now are doomed; those that are gone are forgotten."""
        left = self._pods.get(key, frozenset()) & frozenset(pods)
        if left:
            self._pods[key] = left
        else:
            self._pods.pop(key, None)
        return left

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._pods.pop(key, None)
