#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tries the recipes of packaging/ and the workflows of .github/, as far as this machine has their tools.

Usage: recipes.py SOURCE FOLDER [NAME...]: FOLDER is a work folder; NAME is rpm, conan, vcpkg, nix, alpine, container or
workflows; without one, all. Each recipe builds the library from the files that git knows, and a program is compiled with
the result and run. Prints the recipes that passed, and the steps that were not tried. Ends with 1 if a recipe failed, else with 77 if the tool
of one was missing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import packing  # noqa: E402

CONAN = "conan==2.*"
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"
HELLO = "hello, world\n"


class Failed(Exception):
    """A recipe failed."""


class Missing(Exception):
    """A tool of a recipe is missing."""


class Recipes:
    def __init__(self, source: Path, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.version = packing.version(source)
        self.source = folder / f"libfiberrt-{self.version}"
        files = subprocess.run(["git", "ls-files", "-z"], cwd=source, capture_output=True, check=True).stdout
        for name in filter(None, files.decode().split("\0")):
            if (source / name).exists():
                (self.source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, self.source / name, follow_symlinks=False)
        self.packaging = self.source / "packaging"

    def run(self, *command: object, cwd: "Path | None" = None, **env: object) -> str:
        """Returns the output of a command, which must succeed."""
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=cwd or self.folder, env={**os.environ, **{k: str(v) for k, v in env.items()}},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-4000:]}")
        return done.stdout

    def need(self, tool: str) -> None:
        if not shutil.which(tool):
            raise Missing(f"there is no {tool}")

    def say_hello(self, name: str, *flags: object, libraries: Path) -> None:
        """Compiles the smallest example with an installed library, and runs it."""
        program = self.folder / f"hello-{name}"
        self.run("cc", self.source / "examples/hello.c", "-o", program, *flags)
        said = self.run(program, LD_LIBRARY_PATH=libraries)
        if said != HELLO:
            raise Failed(f"the program printed {said!r}")

    def rpm(self) -> str:
        self.need("rpmbuild")
        self.need("rpmlint")
        spec = self.packaging / "rpm/fiberrt.spec"
        linted = self.run("rpmlint", "--rpmlintrc", self.packaging / "rpm/fiberrt.rpmlintrc", spec)
        if not re.search(r"\b0 errors, 0 warnings", linted):
            raise Failed(f"rpmlint:\n{linted}")
        top = self.folder / "rpm"
        (top / "SOURCES").mkdir(parents=True)
        archive = top / f"SOURCES/libfiberrt-{self.version}.tar.gz"
        self.run("tar", "-czf", archive, "-C", self.folder, self.source.name)
        # The packages that it needs have other names here.
        self.run("rpmbuild", "-ba", "--nodeps", "--define", f"_topdir {top}", "--define", "debug_package %{nil}", spec)
        packages = sorted((top / "RPMS").glob("*/*.rpm"))
        system = top / "system"
        system.mkdir()
        for package in packages:
            self.run("sh", "-c", 'rpm2cpio "$0" | cpio -idm --quiet', package, cwd=system)
        library, = system.glob("usr/lib*/libfiberrt.so")
        self.say_hello("rpm", f"-I{system}/usr/include", library, libraries=library.parent)
        return f"rpmlint, rpmbuild: {len(packages)} packages, and a program with them"

    def conan(self) -> str:
        tools = self.folder / "conan-tools"
        venv.create(tools, with_pip=True)
        try:
            self.run(tools / "bin/pip", "install", "-q", "--disable-pip-version-check", CONAN)
        except Failed as failed:
            raise Missing(f"Conan cannot be fetched: {str(failed).splitlines()[-1]}") from None
        home = {"CONAN_HOME": self.folder / "conan", "PATH": f"{tools}/bin:{os.environ['PATH']}"}
        self.run("conan", "profile", "detect", **home)
        self.run("conan", "create", self.packaging / "conan", "-s", "compiler.cppstd=gnu20", **home)
        return "conan create, with its test package"

    def vcpkg(self) -> str:
        port = json.loads((self.packaging / "vcpkg/vcpkg.json").read_text())
        features = set(port["features"])
        if not features >= set(port["default-features"]):
            raise Failed("vcpkg.json: a default feature is no feature")
        to = self.folder / "vcpkg"
        self.run("cmake", f"-DBUILDTREES={to}-build", f"-DCURRENT_PACKAGES_DIR={to}", f"-DPORT={port['name']}",
                 f"-DFEATURES={';'.join(sorted(features))}", f"-DPORTFILE={self.packaging}/vcpkg/portfile.cmake",
                 "-P", self.source / "tests/vcpkg_functions.cmake")  # fmt: skip
        self.run("cmake", "-S", self.packaging / "conan/test_package", "-B", f"{to}-hello", f"-DCMAKE_PREFIX_PATH={to}")
        self.run("cmake", "--build", f"{to}-hello")
        if self.run(f"{to}-hello/hello") != HELLO:
            raise Failed("the program with the installed library did not say hello")
        return "the port, by functions that stand for vcpkg's; NOT TRIED: by vcpkg itself"

    def nix(self) -> str:
        self.need("nix-instantiate")
        self.run("nix-instantiate", "--parse", self.packaging / "nix/flake.nix")
        # package.nix with a nixpkgs in which each package is its name.
        arguments = ("{ lib.licenses = { mit = 1; asl20 = 2; }; stdenv.mkDerivation = x: x; cmake = 1; ninja = 1; "
                     "python3 = 1; libev = 1; liburing = 1; ncurses = 1; }")  # fmt: skip
        expression = f"(import {self.packaging}/nix/package.nix {arguments}).version"
        said = self.run("nix-instantiate", "--eval", "--expr", expression, NIX_STATE_DIR=self.folder / "nix",
                        NIX_STORE_DIR=self.folder / "nix-store", NIX_LOG_DIR=self.folder / "nix")  # fmt: skip
        if f'"{self.version}"' not in said:
            raise Failed(f"package.nix: the version is {said}")
        return "flake.nix is parsed, package.nix is evaluated; NOT TRIED: nix build, which needs nixpkgs"

    def alpine(self) -> str:
        script = """set -eu
            srcdir=..
            . packaging/alpine/APKBUILD
            amove() { (cd "$pkgdir" && find $1 -type f | grep -q .); }
            build
            check
            package
            tools"""
        system = self.folder / "alpine"
        self.run("sh", "-c", script, cwd=self.source, pkgdir=system)
        self.say_hello("alpine", f"-I{system}/usr/include", system / "usr/lib/libfiberrt.so",
                       libraries=system / "usr/lib")  # fmt: skip
        shutil.rmtree(self.source / "build")
        return "the functions of APKBUILD, with this system's libraries; NOT TRIED: abuild, on Alpine"

    def container(self) -> str:
        """Takes the commands from the file, and sees that apt knows the packages."""
        self.need("apt-cache")
        text = (self.packaging / "container/Containerfile").read_text().replace("\\\n", " ")
        for installs in re.findall(r"apt-get install -y --no-install-recommends ([^&\n]*)", text):
            self.run("apt-cache", "show", "--no-all-versions", *installs.split())
        configure = re.search(r"cmake (-S /fiberrt [^&]*)&&", text)
        if not configure:
            raise Failed("Containerfile has no command that configures the build")
        build = self.folder / "container"
        words = configure[1].replace("/fiberrt ", f"{self.source} ").replace("-B /build", f"-B {build}").split()
        self.run("cmake", *words)
        return "its packages exist, its build is configured; NOT TRIED: podman build, which needs an image"

    def workflows(self) -> str:
        go = subprocess.run([self.source / "bindings/go/toolchain.sh", self.folder], capture_output=True, text=True)
        if go.returncode != 0:
            raise Missing(go.stdout.strip())
        root = go.stdout.strip()
        bin_ = self.folder / "go/bin"
        try:
            self.run(f"{root}/bin/go", "install", ACTIONLINT, GOROOT=root, GOBIN=bin_, GOTOOLCHAIN="local",
                     GOFLAGS="-mod=mod")  # fmt: skip
        except Failed as failed:
            raise Missing(f"actionlint cannot be fetched: {str(failed).splitlines()[-1]}") from None
        files = sorted((self.source / ".github/workflows").glob("*.yml"))
        self.run(bin_ / "actionlint", *files)
        return f"actionlint finds nothing in {len(files)} files; NOT TRIED: on GitHub"


def main() -> None:
    recipes = Recipes(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    known: dict[str, Callable[[], str]] = {
        name: getattr(recipes, name)
        for name in ("rpm", "conan", "vcpkg", "nix", "alpine", "container", "workflows")
    }  # fmt: skip
    names = sys.argv[3:] or list(known)
    if wrong := [name for name in names if name not in known]:
        sys.exit(f"recipes.py: there is no recipe {wrong[0]}; there are {', '.join(known)}")
    status = 0
    for name in names:
        try:
            print(f"recipes.py: passed: {name}: {known[name]()}", flush=True)
        except Missing as missing:
            print(f"recipes.py: DID NOT RUN: {name}: {missing}", flush=True)
            status = status or 77
        except Failed as failed:
            print(f"recipes.py: FAILED: {name}: {failed}", flush=True)
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
