"""Credentials from exec plugins and identity providers, through kubernetes_asyncio's loader.

The only place that imports kubernetes_asyncio, and only when the first header is asked for: the import takes a second and
70 MB. Its loader has no deadline for the plugin's process and rewrites the user's kubeconfig by default; here a run is cut
after 30 s and `persist_config` is always off. A token with a known expiry is renewed before it ends, the others after a
401. The plugin's certificate, if it gives one, goes into the client's TLS context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noctaya.kube.clock import boottime
from noctaya.kube.config import PluginToken
from noctaya.kube.errors import ConfigError
from noctaya.kube.tls import Tls

_RUN_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 60.0


class PluginCredentials:
    """Runs the loader when needed, one run at a time; concurrent requests wait for the same run."""

    def __init__(self, source: PluginToken, tls: Tls, clock: Callable[[], float] = boottime) -> None:
        self._source = source
        self._tls = tls
        self._clock = clock
        self._lock = asyncio.Lock()
        self._loader: Any = None
        self._configuration: Any = None
        self._header: str | None = None
        self._loaded_at = 0.0

    async def authorization(self) -> str | None:
        async with self._lock:
            if self._loader is None or (self._expires() and self._is_old()):
                await self._load()
            return self._header

    async def refresh(self) -> bool:
        async with self._lock:
            before = self._header
            if self._loader is not None:
                # The loader answers from memory while its expiry lies ahead; the server has just said otherwise.
                self._loader.__dict__.pop("exec_plugin_expiry", None)
            await self._load()
            return self._header != before

    def _is_old(self) -> bool:
        return self._clock() - self._loaded_at >= _LOOK_AGAIN_SECONDS

    def _expires(self) -> bool:
        """Whether asking the loader again is free until the credentials expire (else it would run the plugin)."""
        return self._loader.provider is not None or hasattr(self._loader, "exec_plugin_expiry")

    async def _load(self) -> None:
        try:
            async with asyncio.timeout(_RUN_SECONDS):
                if self._loader is None:
                    await self._first_load()
                else:
                    await self._loader.load_and_set(self._configuration)
        except TimeoutError as cause:
            raise ConfigError(
                f"{self._source.described} gave no credentials in {_RUN_SECONDS:.0f} s"
            ) from cause
        except Exception as cause:
            # The loader raises whatever its parts raise (OSError, AssertionError, KeyError, its own): one meaning here.
            raise ConfigError(f"{self._source.described} gave no credentials: {cause}") from cause
        self._loaded_at = self._clock()
        self._header = self._configuration.api_key.get("BearerToken")
        if self._configuration.cert_file and self._configuration.key_file:
            self._tls.use_certificate_files(
                Path(self._configuration.cert_file), Path(self._configuration.key_file)
            )

    async def _first_load(self) -> None:
        from kubernetes_asyncio import client, config

        configuration = client.Configuration()
        self._loader = await config.load_kube_config(
            config_file=self._source.kubeconfig,
            context=self._source.context,
            client_configuration=configuration,
            persist_config=False,
        )
        self._configuration = configuration
