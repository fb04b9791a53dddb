"""What can be wrong with weights."""

REFUSED, WRONG_USE, AWAY = 1, 2, 3


class WeightsError(Exception):
    """Weights are not what, or not where, they should be; the message says what to do, `code` is the exit code."""

    def __init__(self, message: str, code: int = REFUSED) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(Exception):
    """A transfer broke off and may be taken up where it ended. tries: how many of those that are left it counts for."""

    def __init__(self, message: str, tries: int = 1) -> None:
        super().__init__(message)
        self.tries = tries
