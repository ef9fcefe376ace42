"""A number with its noun."""


def counted(number: int, what: str) -> str:
    """`1 block`, `2 blocks`, `3 classes`; `what` is the singular."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what}{'es' if what.endswith('s') else 's'}"
