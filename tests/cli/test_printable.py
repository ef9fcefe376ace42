from dtsflow.cli.terminal import printable


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    assert printable("a\x1b[2Jb\r\n") == "a\\x1b[2Jb\\r\\n"
    assert printable("\udcff") == "\\udcff"
    assert printable("Käse 猫 🐈 x y") == "Käse 猫 🐈 x y"
