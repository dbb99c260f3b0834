# SPDX-License-Identifier: MIT OR Apache-2.0
# readme_python.py README - runs the first two code blocks of the Python package's README. Only the addresses of the
# pages that they fetch are replaced: another process serves these pages here. It answers the first three requests only
# once all three have arrived, so the blocks end only if their requests overlap.
import contextlib
import io
import re
import subprocess
import sys

SERVER = """
import http.server, threading
together = threading.Barrier(3)
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/alone":
            together.wait(60)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 1234)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
print(server.server_address[1], flush=True)
server.serve_forever()
"""

with open(sys.argv[1], encoding="utf-8") as readme:
    pieces = re.findall(r"^    .*(?:\n\n?    .*)*", readme.read(), re.M)[:2]
assert "monkey.patch()" in pieces[0] and "fiberrt.spawn(fetch" in pieces[1], pieces

server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
try:
    port = int(server.stdout.readline())
    names = iter(["1", "2", "3", "alone"])
    code = "\n".join(re.sub(r"^    ", "", piece, flags=re.M) for piece in pieces)
    code = re.sub(r'"https://[^"]*"', lambda _: f'"http://127.0.0.1:{port}/{next(names)}"', code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, sys.argv[1], "exec"), {"__name__": "__main__"})
finally:
    server.kill()
expected = [f"http://127.0.0.1:{port}/{name} 1234" for name in "123"] + ["1234"]
assert printed.getvalue().splitlines() == expected, printed.getvalue()
print("readme_python.py: fine")
