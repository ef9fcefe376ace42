"""Names from files, as a terminal may be given them."""


def printable(name: str) -> str:
    """The name with every control character, and what is no text, as an escape."""
    return "".join(
        char
        if char.isprintable()
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in name
    )
