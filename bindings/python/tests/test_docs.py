# SPDX-License-Identifier: MIT OR Apache-2.0
"""The documentation is right: the tutorial runs, and each public name has a docstring and is in the README."""

import doctest
import http.server
import importlib.metadata
import inspect
import pathlib
import re
import subprocess
import sys
import textwrap
import threading

import fiberrt
import pytest
import servers
from fiberrt import _fiberrt

HERE = pathlib.Path(__file__).resolve().parents[1]


def the_file(name):
    path = HERE / name
    if not path.exists():
        pytest.skip(f"{name} is not next to these tests")
    return path


def test_the_tutorial_behaves_as_described(program):
    path = the_file("docs/tutorial.md")
    done = program(
        """
        import doctest, sys
        found = doctest.testfile(sys.argv[1], module_relative=False, encoding="utf-8")
        print(found.failed, found.attempted)
        """,
        str(path),
    )
    examples = len(doctest.DocTestParser().get_examples(path.read_text(encoding="utf-8")))
    assert examples > 50
    assert done.out.splitlines()[-1:] == [f"0 {examples}"], done.out + done.err
    assert done.code == 0
    assert done.err == ""


def test_the_examples_of_the_readme_run(program):
    """Runs the Python examples as one program, in which every server returns the same answer."""
    text = the_file("README.md").read_text(encoding="utf-8")
    blocks = [m.group() for m in re.finditer(r"(?m)(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+", text)]
    blocks = [textwrap.dedent(block) for block in blocks]
    assert len(blocks) == 3
    done = program(
        "import io, urllib.request\n"
        "urllib.request.urlopen = lambda url: io.BytesIO(b'answer')\n" + "".join(blocks)
    )
    assert done.code == 0, done.err
    assert [line.split()[-1] for line in done.out.splitlines()] == ["6", "6", "6", "6"]


@pytest.mark.parametrize(("page", "output"), [("observing", "fetch: 3 fibers ran "), ("tracing", "")])
def test_the_examples_of_the_c_library_s_pages_run(program, tmp_path, monkeypatch, page, output):
    """Those of docs/observing.md and docs/tracing.md."""
    (block,) = re.findall(r"(?ms)^```python\n(.*?)^```$", the_file(f"../../docs/{page}.md").read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    done = program(block)
    assert (done.code, done.err) == (0, "")
    assert any(line.startswith(output) for line in done.out.splitlines()) if output else done.out == ""
    assert (not output) == (tmp_path / "part.pftrace").exists()


def test_the_readme_s_program_with_requests_runs(program, monkeypatch):
    servers.needs("the test of the README's program with requests", "requests")
    (block,) = re.findall(r"(?ms)^```python\n(.*?)^```$", the_file("README.md").read_text(encoding="utf-8"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        answers = {address: "200", f"{address}none": "404", "nowhere": "Invalid"}
        urls = iter(answers)
        block = block.replace("fail_after(30)", "fail_after(280)").replace("timeout=10", "timeout=280")
        done = program(re.sub(r'"https://[^"]*"', lambda _: f'"{next(urls)}"', block))
        server.shutdown()
    assert (done.code, done.err) == (0, "")
    assert [line.split()[:2] for line in done.out.splitlines()] == [list(item) for item in answers.items()]


def test_the_readme_names_everything_public():
    text = the_file("README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    assert set(fiberrt.__all__) - named == set()


def public(of):
    return [name for name in vars(of) if not name.startswith("_")]


def test_each_public_name_has_a_docstring():
    bare = []
    for name in fiberrt.__all__:
        value = getattr(fiberrt, name)
        if isinstance(value, str):
            continue
        if not inspect.getdoc(value):
            bare.append(name)
        if inspect.isclass(value):
            for member in public(value):
                what = inspect.getattr_static(value, member)
                told = inspect.getdoc(getattr(value, member))
                if (callable(what) or inspect.isdatadescriptor(what)) and not told:
                    bare.append(f"{name}.{member}")
    ours = "monkey", "selectors", "signal", "socket", "ssl", "subprocess"
    for module in (fiberrt, *(getattr(fiberrt, name) for name in ours)):
        if not module.__doc__:
            bare.append(module.__name__)
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == module.__name__
            if own and not name.startswith("_") and callable(value) and not inspect.getdoc(value):
                bare.append(f"{module.__name__}.{name}")
    assert bare == []


def test_the_table_of_other_libraries_names_existing_things():
    text = the_file("docs/coming-from.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) > 30
    missing = []
    for row in rows:
        for name in re.findall(r"`([A-Za-z_][\w.]*)[`(]", row[2]):
            if name in ("main", "contextvars"):  # the program's, and the standard library's
                continue
            value = fiberrt
            for part in name.split("."):
                value = getattr(value, part, None)
            if value is None:
                missing.append(name)
    assert missing == []


def test_an_import_loads_only_required_modules():
    """``typing`` alone takes longer than the package; the rest is imported when it is first used."""
    code = f"import sys; sys.path = {sys.path!r}; import fiberrt; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-I", "-S", "-c", code], text=True).split()
    dear = {"typing", "re", "concurrent.futures", "threading", "queue", "socket", "ssl", "subprocess", "selectors",
            "signal", "inspect", "traceback", "logging", "asyncio", "functools", "enum"}
    assert dear.isdisjoint(loaded), dear.intersection(loaded)
    assert "fiberrt._fiberrt" in loaded


def test_an_import_causes_no_warning():
    code = "import fiberrt.monkey, fiberrt.socket, fiberrt.ssl, fiberrt.subprocess, fiberrt.signal, fiberrt.selectors"
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_the_version_is_the_core_s_and_the_package_s():
    major, minor, patch = map(int, fiberrt.__version__.split("."))
    assert fiberrt.__version__ == importlib.metadata.version("fiberrt")
    assert _fiberrt.core_version() == major * 10000 + minor * 100 + patch


def _pattern_of(told):
    """Return a regular expression for the output of a console block: numbers may differ, and ... is anything."""
    lines = []
    for line in told.splitlines():
        if line.strip() == "...":
            lines.append(r"(?s:.*?)")
        else:
            lines.append(re.sub(r"\d+", r"\\d+", re.escape(line)) + "\n")
    return "".join(lines)


def test_the_chapter_about_testing_behaves_as_described(tmp_path, monkeypatch):
    text = the_file("docs/testing.md").read_text(encoding="utf-8")
    commands = 0
    for kind, name, block in re.findall(r"(?ms)^```(python|console)(?: file=(\S+))?\n(.*?)^```$", text):
        if kind == "python":
            (tmp_path / (name or "other.py")).write_text(block)
            if not name:
                compile(block, "docs/testing.md", "exec")
            continue
        command, _, told = block.partition("\n")
        if not told:
            continue
        words = command.removeprefix("$ ").split()
        assert words[0] == "pytest"
        done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True)
        assert re.match(_pattern_of(told), done.stdout), done.stdout + done.stderr
        commands += 1
    assert commands == 3
