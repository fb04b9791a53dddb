"""fleet.yml: the template, the children and the hosts they are on."""

import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from gpu_repo_runtime.update.git import UpdateError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator


class Strict(BaseModel):
    """A part of the file, in which an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class HostRule(Strict):
    """Where the children below one address open their requests."""

    address: str = Field(min_length=1, description="how clone addresses begin: https://github.com/ or git@gitlab.com:")
    kind: Literal["github", "gitlab"]
    api: str = ""
    token_env: str = Field(pattern=r"^[A-Z_][A-Z0-9_]*$")
    discover: str = Field(default="", description="an organisation, a person or a group: every repository that follows")

    def token(self) -> str:
        """Return the token. Raises UpdateError where its variable is empty."""
        if token := os.environ.get(self.token_env, ""):
            return token
        raise UpdateError(f"{self.token_env} is empty: set it to a token that may push and open pull requests")


class Child(Strict):
    """One repository of the fleet."""

    url: str
    canary: bool = False
    host: HostRule | None = None

    @property
    def path(self) -> str:
        """Return owner/name at its host."""
        start = self.host.address if self.host else ""
        return self.url.removeprefix(start).strip("/").removesuffix(".git")

    @property
    def name(self) -> str:
        """Return the last part of the address."""
        return self.path.replace(":", "/").rpartition("/")[2]


def checked(url: str) -> str:
    """Return an address. Raises ValueError for one with a login, or that git would run as a command."""
    parts = urlsplit(url)
    if parts.password or (parts.scheme in ("http", "https") and parts.username):
        raise ValueError(f"remove the login from the address at {parts.hostname} and set token_env in hosts")
    if url.startswith("-") or "::" in url:
        raise ValueError(f"{url} is not an address of a repository")
    return url


class Listed(Strict):
    """A child in the file: its address, and whether it gets a release first."""

    url: str
    canary: bool = False

    @field_validator("url")
    @classmethod
    def check_url(cls, value: str) -> str:
        """Check the child's address."""
        return checked(value)


class FleetFile(Strict):
    """The whole file."""

    template: str
    children: list[Listed] = []
    folder: str = Field(default="", description="every bare repository in it is a child")
    hosts: list[HostRule] = []

    @field_validator("children", mode="before")
    @classmethod
    def from_addresses(cls, value: Any) -> Any:
        """Accept an address alone as a child."""
        return [{"url": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value

    @field_validator("template")
    @classmethod
    def check_template(cls, value: str) -> str:
        """Check the template's address."""
        return checked(value)


class _OnceLoader(yaml.SafeLoader):
    """YAML in which a key stands once in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [str(key.value) for key, _ in node.value]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise UpdateError(f"line {node.start_mark.line + 1}: {twice[0]} is there twice")
        return super().construct_mapping(node, deep)


def load(path: Path) -> FleetFile:
    """Read the file. Raises UpdateError that names the place of a mistake."""
    try:
        return FleetFile.model_validate(yaml.load(path.read_text(encoding="utf-8"), _OnceLoader))
    except UpdateError as error:
        raise UpdateError(f"{path}: {error}") from None
    except OSError as error:
        raise UpdateError(f"{path}: {error.strerror}; docs/fleet.md shows what to write into it") from None
    except yaml.YAMLError as error:
        raise UpdateError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise UpdateError(f"{path}: {place}: {first['msg'].removeprefix('Value error, ')}{more}") from None
