# SPDX-License-Identifier: MIT OR Apache-2.0
"""The WSGI application that gunicorn serves with the worker of each runtime; run.py puts the load on it."""


def app(environ, start_response):
    body = b"Hello, world!\n"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
