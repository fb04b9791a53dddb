"""The exit codes of the job. They are a contract: the rules of the Kubernetes Job in deploy/base read them.

Exit codes: 0 done, or this shard is done; 1 GPU, disk or network failed, or too little memory for the model (Kubernetes
tries three times per index); 65 bad input (fails this index); 78 wrong options, another plan, changed input, unusable
model, no permission (fails the Job); 130 Ctrl-C; 143 SIGTERM (Kubernetes starts it again); 128 and more killed, usually
for memory, or the model crashed the process.
"""

import errno
import re

DONE = 0
RETRY = 1
BAD_INPUT = 65
BAD_CONFIGURATION = 78
SIGNAL = 128


class JobError(Exception):
    """The job ends, the message says why in one line; another try may work."""

    code = RETRY


class BadInput(JobError):
    """The input is wrong; another try gives the same."""

    code = BAD_INPUT


class BadConfiguration(JobError):
    """The options, the model's code or the output folder are wrong; no worker can go on."""

    code = BAD_CONFIGURATION


class Stopped(JobError):
    """A signal asked the job to stop; what is finished is kept and the next start goes on from there."""

    def __init__(self, signal: int) -> None:
        super().__init__("stopped before the end; start the same command again to go on")
        self.code = SIGNAL + signal


# The codes of stores; a key or a bucket may be called nearly so.
_REFUSED = re.compile(r"access_?denied|no_?such_?bucket|invalid_?access_?key|signature_?does_?not", re.IGNORECASE)
_NO_SUCH_PLACE = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EROFS}
MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)


def is_refused(error: OSError) -> bool:
    """Tell whether a disk or an object store says no and will say so again: no permission, no such bucket, a
    name that no disk takes.

    A token that has expired is another matter, the next process gets a new one.
    """
    said = str(error.strerror or error)
    named = isinstance(error, PermissionError) or error.errno in _NO_SUCH_PLACE or bool(_REFUSED.search(said))
    return named and "expired" not in said.lower()


def refusal(name: str, error: OSError) -> Exception:
    """Return what to raise for a file or object of the input: its name, where it may not be read."""
    return BadConfiguration(f"{name} may not be read: {error}") if is_refused(error) else error
