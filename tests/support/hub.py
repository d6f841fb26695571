"""A Hub of one's own: enough of the real one's HTTP interface to load files from repositories."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serve(repositories: dict[str, Path]) -> Iterator[str]:
    """Serves folders as repositories: name → folder. Gives the address to put into ``HF_ENDPOINT``."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            repository, _, rest = self.path.lstrip("/").partition("/resolve/")
            file = repositories.get(repository, Path("nowhere")) / rest.partition("/")[2].partition("?")[0]
            if repository not in repositories:
                self._refuse("RepoNotFound")
            elif not file.is_file():
                self._refuse("EntryNotFound")
            else:
                content = file.read_bytes()
                self.send_response(200)
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if with_body:
                    self.wfile.write(content)

        def _refuse(self, code: str) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
