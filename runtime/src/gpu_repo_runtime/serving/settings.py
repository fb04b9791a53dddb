"""Settings of the service: every field is read from the environment variable of the same name in capitals."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

A_DAY = 86_400
# Of a body of JSON: two escapes for a character (\ud83d\ude00), what separates inputs, what is around all of them.
CHARACTER_BYTES, INPUT_BYTES, OTHER_BYTES = 12, 16, 10_000
HEADER_VALUE, PREFIX = r"^[!-~]([ -~]*[!-~])?$", r"^(/[A-Za-z0-9._~-]+)*$"
NAME_IN_A_PATH = r"^([A-Za-z0-9_-][A-Za-z0-9._-]*)?$"
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(ge=0.001, le=A_DAY)]

# Variables that are settings no more, and what replaces them.
REMOVED = {"SERVE_AS": "removed in 0.6: convert the weights in Model.load, for example self.network.half()"}


class Settings(BaseSettings):
    """The settings; ``MAX_QUEUE=64`` in the environment sets ``max_queue``."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    listen_host: str = Field(default="0.0.0.0", min_length=1, description="Address to listen on; :: for IPv6 and IPv4")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8000,
        validation_alias=AliasChoices("port", "aip_http_port"),
        description="Port to listen on; 0 takes a free one",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="cuda stops the start without a usable GPU"
    )
    max_batch_size: Count | None = Field(default=None, description="Most inputs in a call (32; tables: 1024)")
    max_queue: Count = Field(default=1024, description="Inputs that may wait for the model; more get 503")
    max_texts: Count = Field(default=64, description="Inputs in one request")
    max_text_chars: Count = Field(default=10_000, description="Characters in one input that is a text")
    max_body_bytes: int | None = Field(
        default=None,
        ge=100,
        le=2_000_000_000,
        description="Size of a request body; None: as large as MAX_TEXTS and MAX_TEXT_CHARS need it",
    )
    client_header: str = Field(
        default="", description="Header that identifies a client, for the quarantine; default: its address"
    )
    memory_margin: float = Field(default=0.1, ge=0, lt=1, description="Share of the GPU's memory that stays free")
    body_seconds: Seconds = Field(default=10, description="Timeout for a request body (408)")
    request_seconds: Seconds = Field(default=30, description="Timeout for an answer (504)")
    shutdown_seconds: float = Field(default=30, ge=1, le=A_DAY, description="Time from SIGTERM to the end")
    stuck_seconds: Seconds = Field(default=120, description="A longer call fails /livez")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="auto: text on a terminal, else JSON"
    )
    model_name: str = Field(
        default="",
        pattern=NAME_IN_A_PATH,
        description="Name in /v1/models/NAME: letters, digits, -, _ and dots; empty: the package's",
    )
    aip_predict_route: str = Field(default="", description="One more path of POST /predict; Vertex AI sets it")
    aip_health_route: str = Field(default="", description="One more path of GET /readyz; Vertex AI sets it")
    root_path: str = Field(
        default="",
        pattern=PREFIX,
        description="Path under which a gateway shows the service, like /team/model, without / at the end",
    )
    app_version: str = Field(
        default="unknown",
        pattern=HEADER_VALUE,
        description="Version of the code in ASCII, shown by /livez and in each answer's X-Model-Version",
    )
    app_image: str = Field(default="unknown", description="Image the code runs in, shown by /livez")

    @field_validator("log_level", "log_format", "device", mode="before")
    @classmethod
    def _in_small_letters(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    def batch_limit(self, table: object) -> int:
        """The most inputs in one call; a call of a table costs more than its rows."""
        return self.max_batch_size or (1024 if table else 32)

    @property
    def body_limit(self) -> int:
        """The most bytes that a request body may have."""
        largest = self.max_texts * (CHARACTER_BYTES * self.max_text_chars + INPUT_BYTES) + OTHER_BYTES
        return self.max_body_bytes or largest

    @model_validator(mode="after")
    def _a_full_request_fits_the_queue(self) -> Self:
        if self.max_texts > self.max_queue:
            words = f"MAX_TEXTS={self.max_texts} is larger than MAX_QUEUE={self.max_queue}"
            raise ValueError(f"{words}: raise MAX_QUEUE or lower MAX_TEXTS")
        return self


def variables(settings: type[Settings] = Settings) -> dict[str, FieldInfo]:
    """Return the environment variables that set the service, each with its field."""
    return {name.upper(): field for name, field in settings.model_fields.items()}


def misspelled(environment: Iterable[str], settings: type[Settings] = Settings) -> dict[str, str]:
    """Return the variables that are not settings but look like one, each with the setting that it looks like."""
    names = [*variables(settings), "AIP_HTTP_PORT"]
    looks_like = {name: get_close_matches(name.upper(), names, 1, 0.85) for name in environment}
    return {name: found[0] for name, found in looks_like.items() if found and found[0] != name.upper()}


def faults(error: ValidationError, settings: type[BaseSettings] = Settings) -> list[str]:
    """Return a line for each setting that is wrong: its variable and what would be right, never its value."""
    lines = []
    for fault in error.errors(include_input=False, include_url=False):
        [name, *_] = *map(str, fault["loc"]), ""
        field, words = settings.model_fields.get(name.lower()), str(fault["msg"]).removeprefix("Value error, ")
        if field and fault["type"] == "string_pattern_mismatch":
            words = f"not valid; {field.description}"
        lines.append(f"{name.upper()}: {words}" if name else words)
    return lines
