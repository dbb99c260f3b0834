# SPDX-License-Identifier: MIT OR Apache-2.0
# dist_info.py SOURCE FOLDER - writes the folder fiberrt-VERSION.dist-info, the record of an installed package, into
# FOLDER, and prints its name. It is for an installation by CMake instead of pip. The contents come from pyproject.toml
# and the header.
import pathlib
import re
import sys
import tomllib

source, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
project = tomllib.loads((source / "pyproject.toml").read_text())["project"]

header = (source / "core/include/fiberrt.h").read_text()
parts = [re.search(rf"^#define FIBERRT_VERSION_{part} (\d+)$", header, re.M) for part in ("MAJOR", "MINOR", "PATCH")]
version = ".".join(part.group(1) for part in parts)

lines = [
    "Metadata-Version: 2.1",
    f"Name: {project['name']}",
    f"Version: {version}",
    f"Summary: {project['description']}",
    f"License: {project['license']['text']}",
    *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
    f"Requires-Python: {project['requires-python'].replace(' ', '')}",
    "Description-Content-Type: text/markdown",
]
name = f"{project['name']}-{version}.dist-info"
(folder / name).mkdir(parents=True, exist_ok=True)
(folder / name / "METADATA").write_text("\n".join(lines) + "\n\n" + (source / project["readme"]).read_text())
print(name)
