# SPDX-License-Identifier: MIT OR Apache-2.0
"""The version of the library, and archives that depend only on the packed files. For other programs of this project."""

import gzip
import re
import tarfile
from pathlib import Path


def version(root: Path) -> str:
    """The version in the header, of the sources in `root`."""
    header = (root / "include/fiberrt.h").read_text()
    parts = ("MAJOR", "MINOR", "PATCH")
    return ".".join(re.search(rf"#define FIBERRT_VERSION_{part} (\d+)", header)[1] for part in parts)


def pack(folder: Path, archive: Path, name: str) -> None:
    """Packs a folder as `name`: equal files give equal bytes, on every machine with the same zlib."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = "root"
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        return entry

    with open(archive, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        with tarfile.open(mode="w", fileobj=packed, format=tarfile.USTAR_FORMAT) as tar:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                tar.add(path, f"{name}/{path.relative_to(folder)}", filter=plain)
