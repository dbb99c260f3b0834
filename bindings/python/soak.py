# SPDX-License-Identifier: MIT OR Apache-2.0
"""Puts load on Django with PostgreSQL, served by gunicorn with our worker, for an hour. There must be no error, and the
memory, descriptors and threads of the worker must not grow.

Usage: FOLDER/venv/bin/python soak.py [--minutes N], with the environment that test.sh has made in FOLDER. It needs wrk.
Ends with 77 if it could not run.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "tests"))
import pytest
import servers
import web

CONNECTIONS = 20
MOST_GROWTH = 1.05
SAMPLE_S = 5

# Each request has a connection of its own to the database, as is Django's default.
APPLICATION = """
import os
import django
from django.conf import settings
from django.db import connection, models, transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"], MIDDLEWARE=["django.middleware.common.CommonMiddleware"], ROOT_URLCONF=__name__,
    SECRET_KEY="x", DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "USER": "postgres",
                           "NAME": "postgres", "PORT": os.environ["DATABASE_PORT"]}},
)
django.setup()

class Item(models.Model):
    number = models.IntegerField()
    class Meta:
        app_label = "application"

def create(request):
    with connection.schema_editor() as editor:
        editor.create_model(Item)
    Item.objects.bulk_create(Item(number=0) for _ in range(100))
    return HttpResponse("created")

def read(request, number):
    return HttpResponse(str(Item.objects.get(id=number).number))

def write(request, number):
    with transaction.atomic():
        Item.objects.filter(id=number).update(number=models.F("number") + 1)
    return HttpResponse("written")

def stream(request):
    return StreamingHttpResponse(f"{item.number}\\n" for item in Item.objects.order_by("id").iterator())

urlpatterns = [
    path("create", create), path("read/<int:number>", read), path("write/<int:number>", write), path("stream", stream),
]

from django.core.wsgi import get_wsgi_application
app = get_wsgi_application()
"""

# Of ten requests, five read, four write, and one streams all rows. Each tenth request ends its connection.
REQUESTS = """
local count = 0
function request()
    count = count + 1
    local kind, headers = count % 10, {}
    if count % 10 == 7 then headers["Connection"] = "close" end
    local row = count % 100 + 1
    if kind == 0 then return wrk.format("GET", "/stream", headers) end
    return wrk.format("GET", (kind < 5 and "/write/" or "/read/") .. row, headers)
end
"""


class Sample:
    """What a process has now."""

    def __init__(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        self.resident_kib = int(re.search(r"VmRSS:\s+(\d+)", status)[1])
        self.threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))


def put_load(wrk: str, server: web.WebServer, worker: int, seconds: int, script: Path) -> tuple[str, list[Sample]]:
    """Returns the output of wrk, and samples of the worker."""
    host, port = server.address
    command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "--timeout", "60", "--latency", "-s", script]
    load = subprocess.Popen([*command, f"http://{host}:{port}/"], stdout=subprocess.PIPE, text=True)
    samples, shown = [], 0.0
    try:
        while True:
            try:
                return load.communicate(timeout=SAMPLE_S)[0], samples
            except subprocess.TimeoutExpired:
                samples.append(Sample(worker))
            if time.monotonic() > shown + 60:
                shown = time.monotonic()
                print(f"resident {samples[-1].resident_kib / 1024:.1f} MiB", file=sys.stderr, flush=True)
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()


def faults(output: str, samples: list[Sample], after: Sample) -> list[str]:
    """Returns what is wrong, and prints the figures."""
    found = re.findall(r"Non-2xx.*|Socket errors.*", output)
    figures = [re.search(pattern, output) for pattern in (r"(\d+) requests in", r"Requests/sec: +(\S+)", r"99% +(\S+)")]
    if not all(figures):
        return [*found, f"wrk gave no figures: {output}"]
    # The memory of the fifth minute, or of the middle of a short run, and that of the last one.
    window = max(1, min(60 // SAMPLE_S, len(samples) // 4))
    begin = min(5 * 60 // SAMPLE_S, len(samples) // 2)
    if not samples:
        return [*found, f"the load was too short for a sample, which takes {SAMPLE_S} s"]
    early, late = samples[begin : begin + window], samples[-window:]
    first, last = (statistics.median(sample.resident_kib for sample in part) for part in (early, late))
    requests, rate, p99 = (figure[1] for figure in figures)
    print(f"{requests} requests, {rate} a second, 99 % within {p99}; resident {first / 1024:.1f} MiB, at the end "
          f"{last / 1024:.1f} MiB; descriptors {early[0].descriptors}, after the load {after.descriptors}; "
          f"threads {early[0].threads}, after the load {after.threads}")  # fmt: skip
    if last > first * MOST_GROWTH:
        found.append(f"the resident memory has grown by {100 * last / first - 100:.1f} %")
    if after.threads > early[0].threads:
        found.append("there are more threads than at the beginning")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    arguments = parser.parse_args()
    wrk = shutil.which("wrk")
    if not wrk:
        print("soak.py: DID NOT RUN: there is no wrk")
        return 77
    try:
        servers.needs("the load on Django", "django", "psycopg", "gunicorn")
        with tempfile.TemporaryDirectory() as name, servers.Postgres(2 * CONNECTIONS + 10) as database:
            folder = Path(name)
            (folder / "requests.lua").write_text(REQUESTS)
            with web.Gunicorn(folder, APPLICATION, DATABASE_PORT=str(database.port)) as server:
                worker = int(server.await_line(r"Booting worker with pid: (\d+)")[1])
                assert server.get("/create") == (200, b"created")
                fresh = Sample(worker)
                output, samples = put_load(wrk, server, worker, int(arguments.minutes * 60), folder / "requests.lua")
                end = time.monotonic() + servers.PATIENCE
                while (after := Sample(worker)).descriptors > fresh.descriptors and time.monotonic() < end:
                    time.sleep(0.1)  # connections end
                found = faults(output, samples, after)
                if after.descriptors > fresh.descriptors:
                    found.append(f"{after.descriptors - fresh.descriptors} descriptors are left over")
                log = server.log.read_text(errors="replace")
                found += re.findall(r".*\[(?:ERROR|WARNING|CRITICAL)\].*|Traceback.*", log)[:10]
                if log.count("Booting worker") != 1:
                    found.append("the worker has been replaced")
    except pytest.skip.Exception as why:
        print(f"soak.py: {why}")
        return 77
    for fault in found:
        print(f"soak.py: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
