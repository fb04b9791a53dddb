"""An image has one form in the registry, whichever way the engine that built it writes its layers."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from image_tools import pack
from image_tools.catalog import ImageError

TIME = 1577836800
Member = tuple[str, Any]


def tar(members: list[Member], style: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar: bytes are a file, None is a folder, a number a folder with that mode, text a hard link."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=style) as out:
        for name, told in members:
            entry = tarfile.TarInfo(name)
            entry.mtime = TIME
            if isinstance(told, bytes):
                entry.size = len(told)
            elif isinstance(told, str):
                entry.type, entry.linkname = tarfile.LNKTYPE, told
            else:
                entry.type, entry.mode = tarfile.DIRTYPE, told or 0o755
            out.addfile(entry, io.BytesIO(told) if isinstance(told, bytes) else None)
    return plain.getvalue()


def saved(folder: Path, layers: list[bytes], **more: Any) -> Path:
    """Write an archive as `docker save` does."""
    config = {"os": "linux", "architecture": "amd64", "config": {"User": "1000"}, "rootfs": {}, **more}
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    entry = {"Config": "config.json", "RepoTags": ["x:1"], "Layers": names}
    files = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps([entry]).encode()}
    folder.mkdir()
    path = folder / "image.tar"
    with tarfile.open(path, "w") as out:
        for name, content in {**files, **dict(zip(names, layers, strict=True))}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return path


BASE = tar([("etc", None), ("etc/hosts", b""), ("opt", None), ("opt/numpy", None)])
# The very difference that was met: folders followed, against whole paths sorted, without the folder that is as it was.
FOLLOWED = [
    ("etc", None),
    ("opt", None),
    ("opt/numpy", None),
    ("opt/numpy/x.py", b"1"),
    ("opt/numpy-2.dist-info", b"2"),
]
SORTED = [("opt", None), ("opt/numpy", None), ("opt/numpy-2.dist-info", b"2"), ("opt/numpy/x.py", b"1")]
WAYS = {
    "another order": (FOLLOWED, SORTED),
    "slashes and a root": (SORTED, [("./", None), *((f"./{name}", told) for name, told in SORTED)]),
    "the other of two names has the bytes": (
        [("opt", None), ("opt/a", b"1"), ("opt/b", "opt/a")],
        [("opt", None), ("opt/b", b"1"), ("opt/a", "opt/b")],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_another_way_to_write_a_layer_is_the_same_image(way: str, tmp_path: Path) -> None:
    found = []
    for number, members in enumerate(WAYS[way]):
        style = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)[number]
        archive = saved(tmp_path / str(number), [BASE, tar(members, style)], container=f"engine's {number}")
        pack.write_packed(archive, tmp_path / str(number) / "layout")
        found.append((pack.layers_of(archive)[0], pack.digest_in(tmp_path / str(number) / "layout")))
    assert found[0] == found[1]


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_layers_may_be_saved_compressed(packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    layers = [BASE, tar(SORTED)]
    plain, small = saved(tmp_path / "a", layers), saved(tmp_path / "b", [packed(layer) for layer in layers])
    assert pack.layers_of(plain)[0] == pack.layers_of(small)[0]


OTHERS = {
    "other bytes": [("opt/x.py", b"2")],
    "another name": [("opt/y.py", b"1")],
    "another mode of a folder below": [("etc", 0o700), ("opt/x.py", b"1")],
    "a new folder": [("opt/x.py", b"1"), ("srv", None)],
    "a deletion": [("opt/.wh.numpy", b""), ("opt/x.py", b"1")],
    "a deletion, and the folder again": [("opt/.wh.numpy", b""), ("opt/numpy", None), ("opt/x.py", b"1")],
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_content_is_another_image(other: str, tmp_path: Path) -> None:
    changed = [tar([("opt/x.py", b"1")]), tar(OTHERS[other])]
    if other == "a deletion, and the folder again":
        changed[0] = tar(OTHERS["a deletion"])
    first, second = (
        pack.layers_of(saved(tmp_path / str(number), [BASE, layer]))[0] for number, layer in enumerate(changed)
    )
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_what_is_packed_is_what_was_there(tmp_path: Path) -> None:
    """Bytes, modes, owners, links and capabilities; each layer is what the configuration says; no key of the engine."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as out:
        for name, kind in {
            "opt": tarfile.DIRTYPE,
            "opt/link": tarfile.SYMTYPE,
            "opt/ü" + "x" * 150: tarfile.REGTYPE,
        }.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid, entry.gid, entry.mtime = kind, 0o750, 1000, 3_000_000, TIME
            entry.linkname = "../etc/hosts" if kind == tarfile.SYMTYPE else ""
            entry.pax_headers = {"SCHILY.xattr.security.capability": "\1"} if kind == tarfile.REGTYPE else {}
            entry.size = 700 if kind == tarfile.REGTYPE else 0
            out.addfile(entry, io.BytesIO(b"a" * 700) if entry.size else None)
    pack.write_packed(saved(tmp_path / "a", [BASE, plain.getvalue()], container="x", history=[{}]), tmp_path / "layout")
    [top] = json.loads((tmp_path / "layout" / "index.json").read_text())["manifests"]
    blobs = {path.name: path.read_bytes() for path in (tmp_path / "layout" / "blobs" / "sha256").iterdir()}
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in blobs.items())
    manifest = json.loads(blobs[top["digest"][7:]])
    config = json.loads(blobs[manifest["config"]["digest"][7:]])
    assert sorted(config) == ["architecture", "config", "history", "os", "rootfs"]
    layers = [
        zstandard.ZstdDecompressor().decompressobj().decompress(blobs[layer["digest"][7:]])
        for layer in manifest["layers"]
    ]
    assert [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers] == config["rootfs"]["diff_ids"]
    with (
        tarfile.open(fileobj=io.BytesIO(plain.getvalue())) as before,
        tarfile.open(fileobj=io.BytesIO(layers[1])) as after,
    ):
        for old, new in zip(before.getmembers(), after.getmembers(), strict=True):
            kept = ("name", "type", "mode", "uid", "gid", "mtime", "size", "linkname")
            assert [getattr(old, key) for key in kept] == [getattr(new, key) for key in kept]
            assert old.pax_headers.get("SCHILY.xattr.security.capability") == new.pax_headers.get(
                "SCHILY.xattr.security.capability"
            )
        assert after.extractfile(after.getmembers()[2]).read() == b"a" * 700  # type: ignore[union-attr]


@pytest.mark.parametrize("content", [b"", b"no tar at all", tar([("manifest.json", b"[]")])], ids=len)
def test_what_is_no_image_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(ImageError, match="not one image as `docker save` writes it"):
        pack.layers_of(tmp_path / "image.tar")
