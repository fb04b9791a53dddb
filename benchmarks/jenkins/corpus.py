"""Compare the runner's static check with Jenkins' own test pipelines; write benchmarks/results/jenkins_corpus.json.

usage: python -m benchmarks.jenkins.corpus CHECKOUT

CHECKOUT is a clone of jenkinsci/pipeline-model-definition-plugin; no file of it is kept. Every *.groovy under
pipeline-model-definition/src/test/resources that holds a `pipeline {` counts, by the layout of Jenkins' own tests:
- invalid: the folder errors/, whose files Jenkins' validator tests expect to be refused (with emptyPipeline.groovy and
  malformed.groovy, which have no `pipeline {` because that is their fault);
- valid: all others. Some of those fail when they run; none is refused by Jenkins before it runs.
Left out are files without a pipeline (shared libraries and scripts that call one), and those that use a directive, a
step or a setting which the runner names as "not run here": tests/jenkins/definitions.json lists them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from benchmarks import ROOT
from benchmarks.harness import machine, write_result
from tests.conftest import git
from tests.jenkins import jvm, runner

RESOURCES = Path("pipeline-model-definition/src/test/resources")
FAULTY_WITHOUT_PIPELINE = {"errors/emptyPipeline.groovy", "errors/malformed.groovy"}


def corpus(folder: Path) -> dict[str, list[str]]:
    """Return the invalid files, the valid ones and those without a pipeline, as paths below `folder`."""
    found: dict[str, list[str]] = {"invalid": [], "valid": [], "without a pipeline": []}
    for file in sorted(folder.rglob("*.groovy")):
        name = file.relative_to(folder).as_posix()
        is_pipeline = re.search(r"^\s*pipeline\s*\{", file.read_text(encoding="utf-8"), re.MULTILINE)
        if not is_pipeline and name not in FAULTY_WITHOUT_PIPELINE:
            found["without a pipeline"].append(name)
        else:
            found["invalid" if name.startswith("errors/") else "valid"].append(name)
    return found


def main() -> None:
    """Check the corpus and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/jenkins_corpus.json")
    options = parser.parse_args()
    folder = options.checkout / RESOURCES
    if not folder.is_dir():
        sys.exit(f"corpus.py: {folder} is not there; CHECKOUT is a clone of jenkinsci/pipeline-model-definition-plugin")
    files = corpus(folder)
    problems = runner.check(*(folder / name for name in files["invalid"] + files["valid"]))
    not_run = {one.file.relative_to(folder).as_posix() for one in problems if one.kind == "not run here"}
    first = {one.file.relative_to(folder).as_posix(): f"line {one.line}: {one.what}" for one in reversed(problems)}
    invalid, valid = ([name for name in files[kind] if name not in not_run] for kind in ("invalid", "valid"))
    accepted = [name for name in invalid if name not in first]
    refused = {name: first[name] for name in valid if name in first}
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    groovy = next(jar.resolve().name for jar in jvm.JARS if jar.exists())
    result = {
        "machine": machine(java=java, groovy=groovy),
        "corpus": "jenkinsci/pipeline-model-definition-plugin",
        "commit": git(options.checkout, "rev-parse", "HEAD").strip(),
        "left_out": {"without a pipeline": len(files["without a pipeline"]), "not run here": len(not_run)},
        "invalid": {"files": len(invalid), "refused": len(invalid) - len(accepted), "wrongly_accepted": accepted},
        "valid": {"files": len(valid), "accepted": len(valid) - len(refused), "wrongly_refused": refused},
    }
    write_result(options.out, result)
    print(options.out.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
