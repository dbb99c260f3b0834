# SPDX-License-Identifier: MIT OR Apache-2.0
"""proxy.py MODULE VERSION PROXY - puts the module in the folder MODULE into the folder PROXY, which then is a module proxy
for GOPROXY=file://PROXY: `go get` fetches the module from it as from a published one."""

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path


def put(module: Path, version: str, proxy: Path) -> None:
    definition = (module / "go.mod").read_text()
    path = re.search(r"^module (\S+)$", definition, re.M)[1]
    folder = proxy / path / "@v"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "list").write_text(version + "\n")
    (folder / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2000-01-01T00:00:00Z"}))
    (folder / f"{version}.mod").write_text(definition)
    own = [definition.parent for definition in module.rglob("go.mod") if definition.parent != module]  # other modules
    with zipfile.ZipFile(folder / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(module.rglob("*")):
            if file.is_file() and not any(other in file.parents for other in own):
                packed.write(file, f"{path}@{version}/{file.relative_to(module)}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    put(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
