"""A made-up Sigstore on this machine: an authority that certifies identities for minutes, and a log of what was signed.

It speaks as Fulcio (v2 of its API) and Rekor (v1) do to cosign. No token is checked: what stands in it is certified, as
Fulcio does after its check.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER_OF = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")  # in which Fulcio writes who vouches for the identity
TIMESTAMPS_OF_LOGS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")  # RFC 6962, 3.3
ENTRY = "1" * 64  # the identifier of the one entry
KEY = "PKIX_ECDSA_P256_SHA_256"


def as_json(told: Any) -> bytes:
    """Return data as JSON, the same bytes for the same data."""
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def public(key: EllipticCurvePrivateKey) -> bytes:
    """Return the public half as DER."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def identifier(key: EllipticCurvePrivateKey) -> bytes:
    """Return how logs name a key: SHA-256 of its public half."""
    return hashlib.sha256(public(key)).digest()


def coded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def token(identity: str, issuer: str) -> str:
    """Return a token of an identity, as a pipeline gets one."""
    now = int(datetime.now(UTC).timestamp())
    claims = {"iss": issuer, "sub": identity, "aud": "sigstore", "iat": now, "exp": now + 300}
    parts = [as_json({"alg": "HS256", "typ": "JWT"}), as_json(claims), b"nobody checks this"]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


class Authority:
    """The authority and its log, each with a key of its own."""

    def __init__(self) -> None:
        self.root_key, self.certificates_log, self.log_key = (generate_private_key(SECP256R1()) for _ in range(3))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made up")])
        self.root = (
            self.blank(name, self.root_key, timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(self.usage(certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.root_key.public_key()), critical=False)
            .sign(self.root_key, SHA256())
        )

    @staticmethod
    def usage(certificates: bool) -> x509.KeyUsage:
        """Return what a certificate's key may do: sign certificates, or anything else."""
        return x509.KeyUsage(not certificates, False, False, False, False, certificates, certificates, False, False)

    def blank(self, name: x509.Name, key: Any, lasts: timedelta) -> x509.CertificateBuilder:
        """Return a certificate for a key without what it is good for."""
        now = datetime.now(UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made up")])
        made = x509.CertificateBuilder().subject_name(name).issuer_name(issuer)
        made = made.public_key(key.public_key() if isinstance(key, EllipticCurvePrivateKey) else key)
        made = made.serial_number(x509.random_serial_number())
        return made.not_valid_before(now - timedelta(seconds=30)).not_valid_after(now + lasts)

    def certify(self, key: Any, claims: dict[str, Any]) -> x509.Certificate:
        """Return a certificate of a public key for what a token says, with the promise of the log of certificates."""
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(claims["sub"])])
        identified = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.root_key.public_key())
        draft = (
            self.blank(x509.Name([]), key, timedelta(minutes=10))
            .add_extension(self.usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(identified, critical=False)
            .add_extension(names, critical=True)
            .add_extension(x509.UnrecognizedExtension(ISSUER_OF, claims["iss"].encode()), critical=False)
        )
        body = draft.sign(self.root_key, SHA256()).tbs_certificate_bytes
        promise = x509.UnrecognizedExtension(TIMESTAMPS_OF_LOGS, self.promise(body))
        return draft.add_extension(promise, critical=False).sign(self.root_key, SHA256())

    def promise(self, body: bytes) -> bytes:
        """Return the timestamp of the log of certificates (RFC 6962, 3.2 and 3.3), as an extension holds it."""
        when = int(datetime.now(UTC).timestamp() * 1000)
        signed = struct.pack("!BBQH", 0, 0, when, 1) + hashlib.sha256(public(self.root_key)).digest()
        signed += len(body).to_bytes(3, "big") + body + struct.pack("!H", 0)
        signature = self.certificates_log.sign(signed, ECDSA(SHA256()))
        one = b"\0" + identifier(self.certificates_log) + struct.pack("!QH", when, 0)
        one += b"\4\3" + struct.pack("!H", len(signature)) + signature
        several = struct.pack("!H", len(one) + 2) + struct.pack("!H", len(one)) + one
        return b"\4" + (bytes([len(several)]) if len(several) < 128 else bytes([0x81, len(several)])) + several

    def enter(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """Return the entry of a signed envelope in a log that has no other."""
        envelope = json.loads(proposed["spec"]["proposedContent"]["envelope"])
        [verifier] = proposed["spec"]["proposedContent"]["verifiers"]
        signatures = [{"signature": one["sig"], "verifier": verifier} for one in envelope["signatures"]]
        hashes = {
            name: {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}
            for name, content in (
                ("envelopeHash", json.dumps(envelope).encode()),
                ("payloadHash", base64.b64decode(envelope["payload"])),
            )
        }
        body = as_json({"apiVersion": "0.0.1", "kind": "dsse", "spec": hashes | {"signatures": signatures}})
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"made.up - 1\n1\n{coded(root)}\n"
        mark = coded(identifier(self.log_key)[:4] + self.log_key.sign(note.encode(), ECDSA(SHA256())))
        entry = {"body": coded(body), "integratedTime": int(datetime.now(UTC).timestamp())}
        entry |= {"logID": identifier(self.log_key).hex(), "logIndex": 0}
        proof = {"logIndex": 0, "rootHash": root.hex(), "treeSize": 1, "hashes": []}
        proof["checkpoint"] = f"{note}\n\u2014 made.up {mark}\n"
        promise = coded(self.log_key.sign(as_json(entry), ECDSA(SHA256())))
        return {ENTRY: entry | {"verification": {"inclusionProof": proof, "signedEntryTimestamp": promise}}}

    def write_trust(self, folder: Path, address: str) -> None:
        """Write who is to be trusted and where they answer, as base-images/keys has it."""
        since = {"start": "2020-01-01T00:00:00Z"}

        def log(key: EllipticCurvePrivateKey) -> dict[str, Any]:
            held = {"rawBytes": coded(public(key)), "keyDetails": KEY, "validFor": since}
            name = {"keyId": coded(identifier(key))}
            return {"baseUrl": address, "hashAlgorithm": "SHA2_256", "publicKey": held, "logId": name}

        chain = {"certificates": [{"rawBytes": coded(self.root.public_bytes(Encoding.DER))}]}
        subject = {"organization": "made up", "commonName": "made up"}
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self.log_key)],
            "ctlogs": [log(self.certificates_log)],
            "certificateAuthorities": [{"subject": subject, "uri": address, "certChain": chain, "validFor": since}],
            "timestampAuthorities": [],
        }
        place = [{"url": address, "majorApiVersion": 1, "validFor": since, "operator": "made up"}]
        services = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": place, "oidcUrls": [], "rekorTlogUrls": place, "tsaUrls": [],
            "rekorTlogConfig": {"selector": "ANY"}, "tsaConfig": {"selector": "ANY"},
        }  # fmt: skip
        (folder / "trusted-root.json").write_text(json.dumps(root))
        (folder / "signing-config.json").write_text(json.dumps(services))


@contextmanager
def answering(authority: Authority) -> Iterator[str]:
    """Let an authority answer on a free port; yield its address."""

    class Answers(BaseHTTPRequestHandler):
        """What the two services are asked for."""

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/api/v1/log/entries":
                told = authority.enter(asked)
            else:
                claims = json.loads(base64.urlsafe_b64decode(self.headers["Authorization"].split(".")[1] + "=="))
                key = load_pem_public_key(asked["publicKeyRequest"]["publicKey"]["content"].encode())
                made = [authority.certify(key, claims), authority.root]
                chain = [one.public_bytes(Encoding.PEM).decode() for one in made]
                told = {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}
            content = json.dumps(told).encode()
            self.send_response(201 if "entries" in self.path else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("ETag", ENTRY)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
