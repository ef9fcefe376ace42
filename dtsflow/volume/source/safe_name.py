"""Names from archives and manifests, before anything is called by them."""


def clean(name: str) -> str:
    """The name without empty and `.` parts: `./a//b/` becomes `a/b`."""
    if name and name[0] not in "./" and "//" not in name and "/." not in name and name[-1] != "/":
        return name  # nearly every name: a million of them are not taken apart
    return "/".join(part for part in name.split("/") if part not in {"", "."})


def why_unsafe(name: str) -> str:
    """Why no file may get this name below a folder; empty if one may."""
    if name.startswith("/"):
        return "an absolute name"
    if "\0" in name:
        return "a name with a zero byte"
    if ".." in name and ".." in name.split("/"):
        return "a name that leads out of its folder"
    return ""


def is_hidden(name: str) -> bool:
    """Whether a part of the name begins with a dot."""
    return name.startswith(".") or "/." in name
