# SPDX-License-Identifier: MIT OR Apache-2.0
"""proxy.py MODULE PROXY - puts the module that module.sh has made in the folder MODULE into the folder PROXY, which then
is a module proxy for GOPROXY=file://PROXY: `go get` fetches the module from it as from a published one. Prints the
module's path, an @ and its version, which is that of the library in it."""

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path


def put(module: Path, proxy: Path) -> str:
    header = (module / "clib/fiberrt.h").read_text()
    version = "v" + ".".join(re.findall(r"^#define FIBERRT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.M))
    definition = (module / "go.mod").read_text()
    path = re.search(r"^module (\S+)$", definition, re.M)[1]
    folder = proxy / path / "@v"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "list").write_text(version + "\n")
    (folder / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2000-01-01T00:00:00Z"}))
    (folder / f"{version}.mod").write_text(definition)
    others = [file.parent for file in module.rglob("go.mod") if file.parent != module]
    with zipfile.ZipFile(folder / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(module.rglob("*")):
            if file.is_file() and not any(other in file.parents for other in others):
                packed.write(file, f"{path}@{version}/{file.relative_to(module)}")
    return f"{path}@{version}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(put(Path(sys.argv[1]), Path(sys.argv[2])))
