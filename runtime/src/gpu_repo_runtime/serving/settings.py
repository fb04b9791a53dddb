"""Settings of the service: every field is read from the environment variable of the same name in capitals."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal, Self

from pydantic import AliasChoices, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What can be set from outside; ``MAX_QUEUE=64`` in the environment sets ``max_queue``."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    listen_host: str = Field(default="0.0.0.0", description="Address to listen on")
    port: int = Field(
        default=8000,
        ge=0,
        le=65535,
        validation_alias=AliasChoices("port", "aip_http_port"),
        description="Port to listen on; 0 takes a free one",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="cuda refuses to start without a usable GPU"
    )

    max_batch_size: int = Field(default=32, ge=1, description="Largest number of inputs in one call of the model")
    max_queue: int = Field(
        default=256, ge=1, description="Inputs that may wait for the model; more are refused with 503"
    )
    max_texts: int = Field(default=64, ge=1, description="Inputs in one request")
    max_text_chars: int = Field(default=10_000, ge=1, description="Characters in one input that is a text")
    max_body_bytes: int = Field(default=1_000_000, ge=100, description="Size of a request body")
    client_header: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9-]*$",
        description="Header with a client's identity; each has its turn and half of the queue. Else: each connection",
    )
    memory_margin: float = Field(default=0.1, ge=0, lt=1, description="Share of the GPU's memory that stays free")

    body_seconds: float = Field(default=10, gt=0, description="Time a client has for a head, and for a body; then 408")
    request_seconds: float = Field(default=30, gt=0, description="Time until an accepted request is given up with 504")
    shutdown_seconds: float = Field(default=30, ge=1, description="Time from SIGTERM to the end of the process")
    stuck_seconds: float = Field(
        default=120, gt=0, description="A call of the model that takes longer turns /livez red"
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="auto: text on a terminal, else JSON"
    )
    model_name: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]*$",
        description="Name in /v1/models/NAME and /v2/models/NAME; empty: the package's",
    )
    aip_predict_route: str = Field(
        default="", pattern="^(/.*)?$", description="One more path of POST /predict; Vertex AI sets it"
    )
    aip_health_route: str = Field(
        default="", pattern="^(/.*)?$", description="One more path of GET /readyz; Vertex AI sets it"
    )
    app_version: str = Field(default="unknown", description="Version of the code, shown by /livez")
    app_image: str = Field(default="unknown", description="Image the code runs in, shown by /livez")

    @model_validator(mode="after")
    def _a_full_request_fits_the_queue(self) -> Self:
        if self.max_texts > self.max_queue:
            raise ValueError(
                f"MAX_TEXTS={self.max_texts} is larger than MAX_QUEUE={self.max_queue}: "
                "such a request could never be accepted; raise MAX_QUEUE or lower MAX_TEXTS"
            )
        return self


def variables(settings: type[Settings] = Settings) -> dict[str, FieldInfo]:
    """Return the environment variables that set the service, each with its field."""
    return {name.upper(): field for name, field in settings.model_fields.items()}


def misspelled(environment: Iterable[str], settings: type[Settings] = Settings) -> dict[str, str]:
    """Return the variables that are no setting but look like one, each with the setting that it looks like."""
    names = [*variables(settings), "AIP_HTTP_PORT"]
    looks_like = {name: get_close_matches(name.upper(), names, 1, 0.85) for name in environment}
    return {name: found[0] for name, found in looks_like.items() if found and found[0] != name.upper()}
