"""The words of an error, which come from the owner's code or a library and may themselves fail."""


def words_of(error: object) -> str:
    """Return ``str(error)``, or "" where that raises, whatever it raises."""
    try:
        return str(error)
    except BaseException:
        return ""


def first_line(error: object) -> str:
    """Return the first line of an error's words, cut where it is long."""
    return (words_of(error).strip().splitlines() or [""])[0][:300]
