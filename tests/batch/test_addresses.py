"""No password of an address is shown or written."""

from __future__ import annotations

import pytest

from tests.batch.conftest import Output


def test_no_password_of_an_address_is_shown(job, tmp_path, capsys):
    """The canary is in the addresses of input, output and options, in mistakes and in a broken file's name."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    address = "memory://someone:CANARY@{}".format
    memory = fsspec.filesystem("memory")
    memory.pipe("/someone:CANARY@in/a.txt", b"one\ntwo\n")
    assert job("--input", address("in"), "--output", tmp_path / "out") == 0
    assert job("--input", address("in"), "--output", address("out")) == 0
    assert job("--input", address("in"), "--output", address("out")) == 0
    assert job("--input", address("nowhere"), "--output", tmp_path / "b") == 78
    assert job("--input", "unknown://someone:CAN/ARY@there", "--output", tmp_path / "c") == 78
    assert job("--input", address("in"), "--output", tmp_path / "d", address("more"), "--option", address("x")) == 78
    said = "".join(capsys.readouterr())
    assert said.count("someone:***@") >= 5
    assert "CAN" not in said
    assert "ARY" not in said
    written = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert [file.name for file in written if b"CANARY" in file.read_bytes()] == []
    command = Output(tmp_path / "out").read_json("_provenance.json")["command"]
    assert "--input memory://someone:***@in" in command


def test_masked_addresses_keep_what_is_no_password(job):
    masked = job.module("messages").masked
    for text, result in {
        "s3://key:se@cret@bucket/a@b": "s3://key:***@bucket/a@b",
        "redis://:secret@host and ftp://u:p@h": "redis://:***@host and ftp://u:***@h",
        "http://host:9091/metrics@new": "http://host:9091/metrics@new",
        "s3://bucket/a:b@c": "s3://bucket/a:b@c",
        "/data/a:b@c": "/data/a:b@c",
    }.items():
        assert masked(text) == result, text
