# SPDX-License-Identifier: MIT OR Apache-2.0
"""Web frameworks that were not written for fibers, on our servers: each says hello, asks a database, takes uploads and
streams an answer. (FastAPI does so in test_aio_packages.py.)"""

import os

import pytest
import servers
import web

import fiberrt

COUNT = 10  # requests at a time

FLASK = f"""
import os, threading
import flask, psycopg

app = flask.Flask("application")
both = threading.Barrier({COUNT})

@app.route("/hello/<name>")
def hello(name):
    both.wait(60)       # {COUNT} requests are in here at the same time
    return f"hello {{name}}"

@app.route("/database/<int:number>")
def database(number):
    with psycopg.connect(host="127.0.0.1", port=os.environ["DATABASE_PORT"], user="postgres") as connection:
        both.wait(60)
        return str(connection.execute("SELECT %s + count(*) FROM pg_sleep(0.05)", [number]).fetchone()[0])

@app.route("/upload", methods=["POST"])
def upload():
    both.wait(60)
    return flask.request.files["file"].read()

@app.route("/stream")
def stream():
    def parts():
        for number in range(5):
            both.wait(60)
            yield f"{{number}}\\n"
    return flask.Response(parts())
"""

DJANGO = f"""
import os, threading
import django
from django.conf import settings
from django.db import connection, models
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

settings.configure(
    ALLOWED_HOSTS=["*"], MIDDLEWARE=["django.middleware.common.CommonMiddleware"], ROOT_URLCONF=__name__,
    SECRET_KEY="x", DEFAULT_AUTO_FIELD="django.db.models.AutoField", DATA_UPLOAD_MAX_MEMORY_SIZE=1 << 23,
    DATABASES={{"default": {{"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "USER": "postgres",
                             "NAME": "postgres", "PORT": os.environ["DATABASE_PORT"]}}}},
)
django.setup()

class Item(models.Model):
    number = models.IntegerField()
    class Meta:
        app_label = "application"

both = threading.Barrier({COUNT})

def create(request):
    with connection.schema_editor() as editor:
        editor.create_model(Item)
    return HttpResponse("created")

def hello(request, name):
    both.wait(60)       # {COUNT} requests are in here at the same time
    return HttpResponse(f"hello {{name}}")

def database(request, number):
    both.wait(60)       # each has its own connection
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid() FROM pg_sleep(0.05)")
        backend = cursor.fetchone()[0]
    Item.objects.create(number=number)
    both.wait(60)
    return HttpResponse(str(backend))

def total(request):
    return HttpResponse(str(Item.objects.aggregate(models.Sum("number"))["number__sum"]))

@csrf_exempt
def upload(request):
    both.wait(60)
    return HttpResponse(b"".join(request.FILES["file"].chunks()))

def stream(request):
    def parts():
        for number in range(5):
            both.wait(60)
            yield f"{{number}}\\n"
    return StreamingHttpResponse(parts())

urlpatterns = [
    path("create", create), path("hello/<name>", hello), path("database/<int:number>", database), path("total", total),
    path("upload", upload), path("stream", stream),
]

from django.core.wsgi import get_wsgi_application
app = get_wsgi_application()
"""

@pytest.fixture(scope="module")
def database():
    with servers.postgres(30) as port:
        yield str(port)


def ask_all(server, path, *more):
    answers = list(fiberrt.map(lambda number: server.get(path.format(number), *more), range(COUNT)))
    assert [status for status, _ in answers] == [200] * COUNT
    return [body for _, body in answers]


def upload_all(server):
    content = os.urandom(3_000_000)  # more than the frameworks keep in memory: it goes into temporary files
    headers, body = web.multipart(content)
    return ask_all(server, "/upload", body, headers) == [content] * COUNT


def check(server):
    assert ask_all(server, "/hello/{}") == [b"hello %d" % number for number in range(COUNT)]
    assert upload_all(server)
    assert ask_all(server, "/stream") == [b"0\n1\n2\n3\n4\n"] * COUNT


@pytest.mark.parametrize("kind", [web.Gunicorn, web.OurServer])
def test_flask(tmp_path, database, kind):
    servers.needs("the test of Flask", "flask", "psycopg", "gunicorn", "h11")
    with kind(tmp_path, FLASK, DATABASE_PORT=database) as server:
        check(server)
        assert ask_all(server, "/database/{}") == [b"%d" % (number + 1) for number in range(COUNT)]


def test_django(tmp_path, database):
    servers.needs("the test of Django", "django", "psycopg", "gunicorn")
    with web.Gunicorn(tmp_path, DJANGO, DATABASE_PORT=database) as server:
        check(server)
        assert server.get("/create") == (200, b"created")
        assert len(set(ask_all(server, "/database/{}"))) == COUNT
        assert server.get("/total") == (200, b"%d" % sum(range(COUNT)))
