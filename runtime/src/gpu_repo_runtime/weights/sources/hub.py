"""Files of a Hugging Face repository at a commit, over the two addresses that its own client asks too.

HF_ENDPOINT is a mirror, HF_TOKEN the token of a closed repository; without it the file that `hf auth login` leaves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ..home import in_home
from ..problems import WRONG_USE, WeightsError
from . import web

HUB = "https://huggingface.co"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Hub:
    """A repository of models; `revision` becomes the commit that a branch or a tag stands for."""

    def __init__(self, repository: str, revision: str) -> None:
        if not _REPOSITORY.fullmatch(repository):
            raise WeightsError(f"hf://{repository}: write hf://OWNER/NAME", WRONG_USE)
        self._repository, self.revision = repository, revision or "main"
        self.sums: dict[str, str] = {}
        self._endpoint = (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
        if not re.match(r"https?://\w", self._endpoint):
            raise WeightsError(f"HF_ENDPOINT={self._endpoint} is no address: write https://HOST", WRONG_USE)
        self._headers = {"User-Agent": "gpu-repo-runtime"}
        if token := _token():
            self._headers["Authorization"] = f"Bearer {token}"
        self._hint = (
            f" (hf://{repository}, {self.revision}; HF_ENDPOINT names a mirror, HF_TOKEN opens a closed repository)"
        )

    def listing(self) -> dict[str, int | None]:
        """Return the files with their sizes. Raises Interrupted or WeightsError."""
        if not _COMMIT.fullmatch(self.revision):
            found, _ = web.ask_json(self._api(f"revision/{quote(self.revision, safe='')}"), self._headers, self._hint)
            self.revision = str(found.get("sha", "")) if isinstance(found, dict) else ""
            if not _COMMIT.fullmatch(self.revision):
                raise WeightsError(f"{self._endpoint} does not say which commit it is{self._hint}")
        url: str | None = self._api(f"tree/{self.revision}?recursive=true&expand=false")
        files: dict[str, int | None] = {}
        while url:
            rows, headers = web.ask_json(url, self._headers, self._hint)
            try:
                found = [row for row in rows if row["type"] == "file"]
                files |= {row["path"]: int(row["size"]) for row in found}
                self.sums |= {row["path"]: row["lfs"]["oid"] for row in found if row.get("lfs")}
            except (KeyError, TypeError, ValueError):
                raise WeightsError(f"{self._endpoint} answered with no list of files{self._hint}") from None
            # A mirror may pass on the address of the hub itself: what follows is asked of the mirror too.
            following = re.search(r'<[^>]*?(/api/models/[^>]+)>;\s*rel="next"', headers.get("Link") or "")
            url = self._endpoint + following[1] if following else None
        return files

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from `start` on."""
        url = f"{self._endpoint}/{self._repository}/resolve/{self.revision}/{quote(path)}"
        return web.stream(url, start, self._headers, self._hint)

    def _api(self, rest: str) -> str:
        return f"{self._endpoint}/api/models/{self._repository}/{rest}"


def _token() -> str:
    if token := os.environ.get("HF_TOKEN", "").strip():
        return token
    cache = os.environ.get("XDG_CACHE_HOME") or in_home(".cache")
    home = os.environ.get("HF_HOME") or (cache and Path(cache, "huggingface"))
    file = os.environ.get("HF_TOKEN_PATH") or (home and Path(home, "token"))
    try:
        return Path(file).read_text(encoding="utf-8").strip() if file else ""
    except OSError:
        return ""
