"""How a role reads its settings: once, in `main`, from `NOCTAYA_…` variables, into one frozen object that is passed down.

A role's settings class sits in its own package and derives from `RoleSettings`; groups are plain frozen models, joined by a
double underscore (`NOCTAYA_LINK__FULL_REPORT_SECONDS`). An unknown `NOCTAYA_` variable stops the start and names the
nearest known one: a setting that silently does nothing is worse than no start.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from noctaya.errors import UserError

PREFIX = "NOCTAYA_"
DELIMITER = "__"

SERVICE_LINK = re.compile(r"_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$")
"""Kubernetes puts such variables into a pod for every Service of its namespace, ours (`noctaya-gateway`) included."""


class InvalidSettings(UserError):
    """A variable that we do not know, or a value that does not fit; the message names it."""


class SettingsGroup(BaseModel):
    """A group of settings that belong together. Every field has a docstring with its unit and why the default is so."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LogSettings(SettingsGroup):
    """How a process speaks of itself."""

    level: str = "info"
    """debug, info, warning or error."""
    format: str = "auto"
    """`text` for people, `json` (one object a line) for machines; `auto` is text on a terminal, JSON elsewhere."""


class RoleSettings(BaseSettings):
    """What every role has; the source is the environment alone."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        frozen=True,
        extra="forbid",
    )

    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments (tests), then the environment: no file is read that nobody named."""
        del settings_cls, dotenv_settings, file_secret_settings
        return init_settings, env_settings


SettingsT = TypeVar("SettingsT", bound=RoleSettings)


def load(role: type[SettingsT]) -> SettingsT:
    """Read `role` from this process's environment.

    Raises:
        InvalidSettings: an unknown variable (with the nearest known name) or an invalid value, each by its name.
    """
    refuse_unknown(role, os.environ)
    try:
        return role()
    except ValidationError as error:
        problems = "; ".join(
            f"{variable_name(problem['loc'])}: {problem['msg']}"
            for problem in error.errors(include_input=False)
        )
        raise InvalidSettings(f"{problems}. Change or unset it and start again.") from error


def refuse_unknown(role: type[RoleSettings], environment: Mapping[str, str]) -> None:
    """Raise `InvalidSettings` for the first `NOCTAYA_` variable that `role` does not know."""
    known = set(variables(role))
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in known or is_service_link(name):
            continue
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        raise InvalidSettings(
            f"{name} is not a setting of Noctaya. Did you mean {nearest[0]}? Rename or unset it and start again."
        )


def is_service_link(name: str) -> bool:
    """Whether Kubernetes may have put `name` there for a Service; a name with our delimiter is meant for us."""
    return DELIMITER not in name and SERVICE_LINK.search(name) is not None


def variables(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every variable that fills a field of `model`, groups themselves (as JSON) included."""
    for name, field in model.model_fields.items():
        here = (*path, name)
        yield variable_name(here)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from variables(field.annotation, here)


def variable_name(path: tuple[str | int, ...]) -> str:
    """The environment's name of the field at `path`."""
    return PREFIX + DELIMITER.join(str(part) for part in path).upper()
