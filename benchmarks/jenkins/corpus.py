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

from benchmarks.harness import as_json, machine, write_result
from tests.jenkins import jvm, runner

ROOT = Path(__file__).resolve().parent.parent.parent
RESULT = ROOT / "benchmarks" / "results" / "jenkins_corpus.json"
RESOURCES = Path("pipeline-model-definition/src/test/resources")
FAULTY_WITHOUT_PIPELINE = {"errors/emptyPipeline.groovy", "errors/malformed.groovy"}


def corpus(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the invalid, the valid and the left-out files, as paths below `folder`."""
    invalid, valid, left_out = [], [], []
    for file in sorted(folder.rglob("*.groovy")):
        name = str(file.relative_to(folder))
        holds = re.search(r"^\s*pipeline\s*\{", file.read_text(encoding="utf-8"), re.MULTILINE)
        if not holds and name not in FAULTY_WITHOUT_PIPELINE:
            left_out.append(name)
        elif name.startswith("errors/"):
            invalid.append(name)
        else:
            valid.append(name)
    return invalid, valid, left_out


def main() -> None:
    """Check the corpus and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout
    folder = checkout / RESOURCES
    if not folder.is_dir():
        sys.exit(f"corpus.py: {folder} is not there; CHECKOUT is a clone of jenkinsci/pipeline-model-definition-plugin")
    invalid, valid, left_out = corpus(folder)
    problems = runner.check(*(folder / name for name in invalid + valid))
    not_run = {str(one.file.relative_to(folder)) for one in problems if one.kind == "not run here"}
    refused = {str(one.file.relative_to(folder)): f"line {one.line}: {one.what}" for one in reversed(problems)}
    invalid, valid = ([name for name in names if name not in not_run] for names in (invalid, valid))
    wrongly_accepted = [name for name in invalid if name not in refused]
    wrongly_refused = {name: refused[name] for name in valid if name in refused}
    head = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    groovy = next(jar.resolve().name for jar in jvm.JARS if jar.exists())
    result = {
        "machine": machine(java=java, groovy=groovy),
        "corpus": "jenkinsci/pipeline-model-definition-plugin",
        "commit": subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip(),
        "left_out": {"without a pipeline": len(left_out), "not run here": len(not_run)},
        "invalid": {
            "files": len(invalid),
            "refused": len(invalid) - len(wrongly_accepted),
            "wrongly_accepted": wrongly_accepted,
        },
        "valid": {
            "files": len(valid),
            "accepted": len(valid) - len(wrongly_refused),
            "wrongly_refused": wrongly_refused,
        },
    }
    write_result(RESULT, result)
    print(as_json(result))


if __name__ == "__main__":
    main()
