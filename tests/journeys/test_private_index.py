"""My package is on my company's index: docs/how-to/use-a-private-index.md with a login and certificate."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

from tests.images.small_image import wheel
from tests.journeys.child import Child

TYPE = "service"
PAGE = "how-to/use-a-private-index.md"
SECRET = "s3cr@:/%# $"  # the characters that an address has to quote
LOGIN = "Basic " + base64.b64encode(f"robot:{SECRET}".encode()).decode()
pytestmark = pytest.mark.needs("openssl")


class Index(SimpleHTTPRequestHandler):
    """A folder of packages, behind a login."""

    def do_GET(self) -> None:
        if self.headers.get("Authorization") == LOGIN:
            return super().do_GET()
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="index"')
        self.end_headers()
        return None

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address(child: Child, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("index")
    public = ssl.get_default_verify_paths().cafile
    for name in ("PIP_CERT", "SSL_CERT_FILE"):
        child.environment.pop(name, None)
    names = "-subj /CN=index -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    child.sh(f"openssl req -x509 -newkey rsa:2048 -nodes {names} -keyout ../own.pem -out ../own.pem")
    child.sh(f"cat {public} ../own.pem >../company.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(child.path("../own.pem"))
    (folder / "simple").mkdir()
    wheel(folder / "simple/parcel-rates", "parcel-rates", "1.0", {"parcel_rates.py": "NZ = 9.5\n"})
    wheel(folder / "simple/numpy", "numpy", "2.0.0", {"numpy.py": ""})  # older than PyPI's
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=folder)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://robot:{quote(SECRET, safe='')}@127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_index_is_set_in_a_file_that_git_ignores(child: Child, address: str) -> None:
    child.follow("1. Set the index")
    assert "password" not in child.sh("git add -A && git diff --cached")
    setting = child.path(".env").read_text().replace("https://robot:password@packages.example.com", address)
    child.path(".env").write_text(f"{setting}PIP_CERT={child.folder.parent}/company.pem\n")


def test_the_package_is_locked_and_installed_without_a_trace_of_the_password(child: Child) -> None:
    child.follow("2. Add the package")
    child.sh('.venv/bin/python -c "import numpy.linalg, parcel_rates"')
    child.sh("! grep 's3cr\\|127.0.0.1' requirements*.lock")


def test_a_wrong_password_is_reported_and_not_printed(child: Child, address: str) -> None:
    output = child.refused(
        f"PIP_EXTRA_INDEX_URL={address.replace('@127', 'old@127')}/simple scripts/lock",
        "lock: the package index 127.0.0.1 refused the login (401): correct user and password in PIP_EXTRA_INDEX_URL",
    )
    assert "s3cr" not in output
