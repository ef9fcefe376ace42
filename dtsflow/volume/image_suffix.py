"""What files of images are called by their format."""

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
UNKNOWN = ".bin"
WEBP = ".webp"
SIGNATURE_BYTES = 12  # of an image, that tell its format

SIGNATURES = {
    b"\xff\xd8\xff": ".jpg",
    b"\x89PNG\r\n\x1a\n": ".png",
    b"BM": ".bmp",
    b"GIF8": ".gif",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
}


def sniffed_suffix(data: bytes | memoryview) -> str:
    """The suffix of the image format that these bytes begin as."""
    start = bytes(data[:SIGNATURE_BYTES])
    if start[:4] == b"RIFF" and start[8:] == b"WEBP":
        return WEBP
    for signature, suffix in SIGNATURES.items():
        if start.startswith(signature):
            return suffix
    return UNKNOWN
