"""Git for the fleet: the child's clone, and a token that only its own host gets, never on a command line."""

from pathlib import Path

from gpu_repo_runtime.update.git import Git, UpdateError

from fleetkit.fleet_file import Child, HostRule

BOT = "template-fleet@example.invalid"
SETTINGS = ("core.autocrlf=false", "protocol.ext.allow=never", "http.lowSpeedLimit=1000", "http.lowSpeedTime=30")
ENV = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15",
    "GIT_LFS_SKIP_SMUDGE": "1",
    **{f"GIT_{who}_NAME": "Template fleet" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": BOT for who in ("AUTHOR", "COMMITTER")},
}
HELPER = '!f() { test "$1" = get && echo username=oauth2 && echo "password=$FLEET_TOKEN"; }; f'


def access(folder: Path, url: str, rule: HostRule | None) -> Git:
    """Return git in `folder`. It passes the token of the address's host to this host alone, by https."""
    if rule is None or not url.startswith("https://"):
        return Git(folder, ENV, SETTINGS)
    site = "/".join(url.split("/")[:3])
    return Git(folder, ENV | {"FLEET_TOKEN": rule.token()}, (*SETTINGS, f"credential.{site}.helper={HELPER}"))


def shallow_clone(child: Child, folder: Path) -> Git:
    """Clone the default branch without history and contents; git fetches a file when it is read. Raises UpdateError."""
    url = f"file://{Path(child.url).resolve()}" if Path(child.url).is_dir() else child.url  # else it is not shallow
    options = ("--quiet", "--depth=1", "--no-tags", "--no-checkout", "--filter=blob:none", "--template=")
    access(folder.parent, url, child.host).text("clone", *options, "--", url, str(folder))
    git = access(folder, url, child.host)
    if git.run("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        raise UpdateError("the repository is empty, or its default branch is gone")
    return git
