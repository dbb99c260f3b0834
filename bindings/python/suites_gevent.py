# SPDX-License-Identifier: MIT OR Apache-2.0
"""For suites.py --gevent: the tests of gevent, and those of packages that use it, with gevent and with
fiberrt.compat.gevent in its place."""

import os
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path

# The files of each package's source distribution, by their names here. Those of gevent are in its wheel.
PACKAGES = {
    "celery": {"test_gevent": "t/unit/concurrency/test_gevent.py"},
    "flask_socketio": {"test_socketio": "test_socketio.py"},
    "gunicorn": {
        "test_ggevent": "tests/workers/test_ggevent.py",
        "test_gevent_import_order": "tests/workers/test_gevent_import_order.py",
    },
    "python_engineio": {"test_server": "tests/common/test_server.py", "test_socket": "tests/common/test_socket.py"},
    "python_socketio": {"test_server": "tests/common/test_server.py", "test_manager": "tests/common/test_manager.py"},
}  # fmt: skip
# Not those of parts that are other here: the hub's loop, the parser of pywsgi, the threads of the thread pool, files.
GEVENT = (
    "api_timeout", "contextvars", "event", "exc_info", "greenlet", "greenletset", "hub_join",
    "issue1686", "issue1864", "issue230", "issue330", "issue467", "issue600", "issue607", "issue639",
    "issues461_471", "iwait", "joinall", "local", "lock", "monkey_queue", "order", "pool", "queue", "select",
    "semaphore", "server", "signal", "socket_errors", "socket_send_memoryview", "socket_timeout",
    "socketpair", "systemerror", "timeout",
)  # fmt: skip
FILES = (
    *(f"gevent.test__{name}" for name in GEVENT),
    *(f"{package}.{name}" for package, files in PACKAGES.items() for name in files),
)
WHICH = "FIBERRT_SUITES_GEVENT"  # in the process that runs a file: own or gevent


def package_of(module: str) -> str:
    """Returns the name by which Python or pytest knows a file of tests."""
    return "gevent.tests." + module.removeprefix("gevent.") if module.startswith("gevent.") else module


def use(which: str) -> None:
    """Replaces gevent by our modules (which: own), but not its tests and the package that these use. The working folder
    is the file's own."""
    if which != "own":
        return
    import fiberrt.compat.gevent as own

    own.install()
    own.__path__.append(os.path.join(sysconfig.get_paths()["purelib"], "gevent"))
    # Names of gevent's inside that its tests and the package gevent.testing use.
    sys.modules["gevent._hub_local"] = own.hub
    own.Timeout._start_new_or_dummy = own.Timeout.start_new
    own.pywsgi.WSGIHandler._print_unexpected_exc = staticmethod(traceback.print_exc)
    # Processes that the tests start get our modules, too.
    Path("sitecustomize.py").write_text("import fiberrt.compat.gevent.as_gevent\n")
    os.environ["PYTHONPATH"] += f":{Path.cwd()}"


def by_pytest(module: str, tell: Callable[[str, str], None], chosen: set[str], but: set[str]) -> bool:
    """Runs the tests of a file of PACKAGES. Returns False if the module is none."""
    import pytest

    package, _, name = module.partition(".")
    if package not in PACKAGES:
        return False
    root = Path(os.environ["PYTHONPATH"].split(":")[0], package)

    def named(nodeid: str) -> str:
        return ".".join([module, *nodeid.split("::")[1:]])

    class Teller:
        def pytest_collection_modifyitems(self, items):
            items[:] = [
                item for item in items if (id := named(item.nodeid)) not in but and (not chosen or id in chosen)
            ]

        def pytest_runtest_logstart(self, nodeid, location):
            tell(named(nodeid), "begins")

        def pytest_runtest_logreport(self, report):
            if report.when == "call" or report.outcome != "passed":
                tell(named(report.nodeid), {"passed": "passes", "failed": "fails", "skipped": "skips"}[report.outcome])

    os.chdir(root)
    pytest.main(["-p", "no:cacheprovider", "-o", "addopts=", PACKAGES[package][name]], plugins=[Teller()])
    return True


def fetch(folder: Path, packages: set[str]) -> str:
    """Fetches the source distributions of packages that test.sh has installed, and returns the folder with them.
    OSError: one cannot be fetched."""
    place = folder / "gevent"
    place.mkdir(exist_ok=True)
    for package in sorted(packages & PACKAGES.keys()):
        if (place / package).exists():
            continue
        pip, python = folder / "venv/bin/pip", folder / "venv/bin/python"
        commands = (
            f"version=$('{python}' -c 'from importlib.metadata import version; print(version(\"{package}\"))') && "
            f"'{pip}' download --no-deps --no-binary {package} -d . {package}==$version && "
            f"tar xf {package}-$version.tar.gz && mv {package}-$version {package}"
        )
        done = subprocess.run(["sh", "-c", commands], cwd=place, capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"the tests of {package} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
    return str(place)
