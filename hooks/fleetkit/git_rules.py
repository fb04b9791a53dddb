"""What git may do in this tool: no repository of a child, and no setting of a person, makes it run a program.

Only what reaches a remote stays as the person set it up: credentials, ssh, proxies, addresses that stand for others.
"""

from __future__ import annotations

import os
from pathlib import Path

import plumbum
from gpu_repo_runtime.update.git_calls import git

AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Template updates"), ("EMAIL", "template-updates@example.invalid"))
}
PATIENCE = "-oConnectTimeout=30 -oServerAliveInterval=15 -oServerAliveCountMax=4"  # a host that hangs is given up
OFFLINE = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": f"ssh -oBatchMode=yes {PATIENCE}"}  # ask for no password
PROTOCOLS = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh", "GIT_LFS_SKIP_SMUDGE": "1"}  # ext:: runs a program
IN_A_HURRY = {"GIT_HTTP_LOW_SPEED_LIMIT": "1", "GIT_HTTP_LOW_SPEED_TIME": "6"}  # where many are only looked at
SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "init.templateDir": "",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
}
ATTRIBUTES = "* !filter !diff !merge\n"  # what stands here wins over every .gitattributes of the child


def set_rules() -> None:
    """Set the rules for every git that this process and its workers start, Copier's too."""
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    rules = AUTHOR | OFFLINE | PROTOCOLS | {"GIT_CONFIG_COUNT": str(count + len(SETTINGS))}
    for number, (name, value) in enumerate(SETTINGS.items(), start=count):
        rules |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    os.environ.update(rules)
    plumbum.local.env.update(rules)  # with this copy of the environment, made at its import, Copier runs git


def guard(clone: Path) -> None:
    """Let files that git writes into `clone` pass through no program, and no link lead out of it."""
    git(clone, "config", "core.symlinks", "false")
    attributes = clone / ".git" / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text(ATTRIBUTES, encoding="utf-8")
