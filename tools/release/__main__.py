# SPDX-License-Identifier: MIT OR Apache-2.0
"""python3 tools/release OUT [NAME...] - makes what a release publishes, twice, and compares.

Clones the commit HEAD into two folders below OUT, makes everything in each, and fails if a file differs by a byte.
OUT/VERSION/ then has the files, and SHA256SUMS. NAME: makes only these, of

    source          the sources, as git archive packs them
    amalgamation    the library as one file
    go              the Go module
    rust            the crates
    python          the source distribution and the wheel
    debs            the Debian packages; debian/packages.sh makes them twice itself, so one clone is enough; needs root
    sbom            the files of the sources with their checksums and licences, in the form of SPDX, by reuse

Exit status: 77 if something could not be made here; 1 if something failed or differs.
"""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import packing  # noqa: E402

DID_NOT_RUN = 77
ENVIRONMENTS: tuple[dict[str, str], ...] = ({}, {"TZ": "Pacific/Kiritimati", "LC_ALL": "C.UTF-8"})


class Missing(Exception):
    """Something cannot be made here."""


def output(*command: object, cwd: Path = ROOT) -> str:
    return subprocess.run(list(map(str, command)), cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


class Release:
    """The files of a release, made in one clone."""

    def __init__(self, clone: Path, commit: str, files: Path, downloads: Path, environment: dict[str, str]) -> None:
        self.clone, self.commit, self.files, self.downloads = clone, commit, files, downloads
        shutil.rmtree(clone, ignore_errors=True)
        shutil.rmtree(files, ignore_errors=True)
        output("git", "clone", "-q", "--no-checkout", ROOT, clone)
        output("git", "checkout", "-q", "--detach", commit, cwd=clone)
        files.mkdir(parents=True)
        self.build = clone / "build"
        self.build.mkdir()
        self.version = packing.version(clone)
        self.seconds = output("git", "log", "-1", "--format=%ct", cwd=clone).strip()
        # The time that tools write into their archives is that of the commit.
        self.environment = {**os.environ, **environment, "SOURCE_DATE_EPOCH": self.seconds}

    def run(self, *command: object) -> None:
        log = self.build / "log"
        with open(log, "w", encoding="utf-8") as to:
            done = subprocess.run(list(map(str, command)), cwd=self.clone, env=self.environment, stdout=to,
                                  stderr=subprocess.STDOUT)  # fmt: skip
        if done.returncode == 0:
            return
        said = log.read_text(errors="replace").strip()[-3000:]
        if done.returncode == DID_NOT_RUN:
            raise Missing(said.splitlines()[-1] if said else "no reason given")
        sys.exit(f"release: FAILED: {' '.join(map(str, command))}\n{said}")

    def take(self, folder: Path, *patterns: str) -> None:
        found = [path for pattern in patterns for path in folder.glob(pattern)]
        if not found:
            sys.exit(f"release: FAILED: {folder} has no {' or '.join(patterns)}")
        for path in found:
            shutil.copy2(path, self.files)

    def source(self) -> None:
        name = f"libfiberrt-{self.version}"  # fiberrt-VERSION.tar.gz is that of the Python package
        archive = subprocess.run(["git", "archive", f"--prefix={name}/", "HEAD"], cwd=self.clone, check=True,
                                 stdout=subprocess.PIPE).stdout  # fmt: skip
        with open(self.files / f"{name}.tar.gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            packed.write(archive)

    def amalgamation(self) -> None:
        self.run(sys.executable, "-B", "tools/amalgamate", self.build / "amalgamation", self.files)

    def go(self) -> None:
        path = re.findall(r"^module (.*)", (self.clone / "bindings/go/go.mod").read_text(), re.M)[0]
        path = os.environ.get("FIBERRT_GO_PATH", path)
        if path.startswith("example."):
            print("release: FIBERRT_GO_PATH is not set: the Go module has a path that stands for yours", flush=True)
        self.run("bindings/go/module.sh", path, self.build / "go", self.downloads)
        packing.pack(self.build / "go", self.files / f"fiberrt-go-{self.version}.tar.gz", f"fiberrt-go-{self.version}")

    def rust(self) -> None:
        self.run(sys.executable, "-B", "bindings/rust/package.py", self.build / "rust", self.downloads)
        self.take(self.build / "rust", "*.crate")

    def python(self) -> None:
        self.run("bindings/python/package.sh", self.build / "wheel")
        self.take(self.build / "wheel/dist", "*.whl", "*.tar.gz")

    def debs(self) -> None:
        self.run("debian/packages.sh", self.build / "deb")
        self.take(self.build / "deb/one", "*.deb", "*.dsc", "*.tar.*")

    def sbom(self) -> None:
        if not shutil.which("reuse"):
            raise Missing("there is no reuse")
        text = output("reuse", "spdx", cwd=self.clone)
        name = f"libfiberrt-{self.version}"
        time = output("date", "-u", "-d", f"@{self.seconds}", "+%Y-%m-%dT%H:%M:%SZ").strip()
        # What would differ from run to run is taken from the commit.
        for tag, value in (
            ("DocumentName", name),
            ("DocumentNamespace", f"http://spdx.org/spdxdocs/{name}-{uuid.uuid5(uuid.NAMESPACE_URL, self.commit)}"),
            ("Created", time),
        ):
            text, changed = re.subn(rf"^{tag}: .*", f"{tag}: {value}", text, flags=re.M)
            if changed != 1:
                sys.exit(f"release: FAILED: reuse spdx prints {changed} lines {tag}")
        (self.files / f"{name}.spdx").write_text(in_order(text), encoding="utf-8")


def in_order(text: str) -> str:
    """Sorts the files of a document of SPDX by their names, and the relationships, which reuse prints in the order in
    which it found the files."""
    head, *files = re.split(r"\n(?=FileName: )", text)
    licences = ""
    if files and "\n\nLicenseID: " in files[-1]:
        files[-1], _, rest = files[-1].partition("\n\nLicenseID: ")
        licences = f"\n\nLicenseID: {rest.strip()}"
    lines = head.strip().split("\n")
    relations = sorted(line for line in lines if line.startswith("Relationship: "))
    head = "\n".join([line for line in lines if not line.startswith("Relationship: ")] + relations)
    return "\n\n".join([head, *sorted(file.strip() for file in files)]) + licences + "\n"


NAMES = ("source", "amalgamation", "go", "rust", "python", "debs", "sbom")


def checksums(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def main(out: Path, names: tuple[str, ...]) -> int:
    wrong = [name for name in names if name not in NAMES]
    if wrong:
        sys.exit(f"release: there is no {wrong[0]}; there are {', '.join(NAMES)}")
    if output("git", "status", "--porcelain"):
        print("release: changes that are not committed are not in the release")
    for old in out.glob("*/SHA256SUMS"):
        shutil.rmtree(old.parent)
    status = 0
    made = []
    commit = output("git", "rev-parse", "HEAD").strip()
    for place, environment in zip(("one", "two/elsewhere"), ENVIRONMENTS):
        release = Release(out / place / "clone", commit, out / place / "files", out / "downloads", environment)
        made.append(release)
        for name in names:
            if name == "debs" and len(made) > 1:
                continue
            make: Callable[[], None] = getattr(release, name)
            try:
                make()
            except Missing as missing:
                print(f"release: DID NOT RUN: {name}: {missing}", flush=True)
                status = DID_NOT_RUN
    first, second = (checksums(release.files) for release in made)
    for name in second.keys() | first.keys():
        if name not in second and re.search(r"\.deb$|\.dsc$|^fiberrt_", name):
            continue
        if first.get(name) != second.get(name):
            sys.exit(f"release: FAILED: {name} differs between two builds: {out}/one/files, {out}/two/elsewhere/files")
    if status:
        return status
    version, tag = made[0].version, f"v{made[0].version}"
    to = out / version
    shutil.copytree(made[0].files, to)
    (to / "SHA256SUMS").write_text("".join(f"{total}  {name}\n" for name, total in first.items()))
    print(f"release: {to}: {len(first)} files, made twice with the same bytes")
    if tag not in output("git", "tag", "--points-at", commit).split():
        print(f"release: this commit has no tag {tag}: give it one before you publish")
    return status


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python3 tools/release OUT [NAME...]")
    sys.exit(main(Path(sys.argv[1]).resolve(), tuple(sys.argv[2:]) or NAMES))
