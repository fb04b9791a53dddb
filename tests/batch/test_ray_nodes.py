"""What the nodes of a Ray cluster have: the same code and weights, and Ray itself where a child asks for it."""

from __future__ import annotations

import shutil

import pytest

from tests.batch.conftest import PACKAGE, texts, write_jsonl
from tests.batch.ray_cluster import done, head, python_with_ray  # noqa: F401 - a fixture


@pytest.mark.release
@pytest.mark.parametrize(("other", "what"), [("model.py", "code"), ("weights.bin", "weights")])
def test_a_node_whose_code_or_weights_are_others_is_refused(python, child, tmp_path, out, other, what):
    """The second node sees a package of its own where the first one has the checkout's, as in another image."""
    own = tmp_path / "src"
    shutil.copytree(child / "src", own)
    with (own / PACKAGE / other).open("a") as file:
        file.write("# another version\n")
    lines = write_jsonl(tmp_path / "a.jsonl", texts(300))
    with head(python, child) as cluster:
        mounted = f"mount --bind {own} {child / 'src'} && exec "
        cluster.join(("unshare", "--mount", "sh", "-c", mounted + '"$0" "$@"'))
        cluster.has(2)
        said = done(cluster.run("--input", lines, "--output", out.path, "--part-rows", 25), 78)
        assert f"the {what}" in said
        assert not out.complete
