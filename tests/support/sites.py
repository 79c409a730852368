"""A web server in this process, for tests of downloads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Site:
    """The files of the server, how it misbehaves, and the requests it received."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    etag: str | None = '"v1"'
    cuts: list[int] = field(default_factory=list)  # close after this many bytes, once each
    statuses: list[int] = field(default_factory=list)  # respond with these first, once each
    requests: list[dict[str, str]] = field(default_factory=list)  # the headers of each
    shift: int = 0  # start the next range this many bytes too late
    while_serving: Callable[[], None] | None = None
    port: int = 0

    def url(self, filename: str) -> str:
        return f"http://127.0.0.1:{self.port}/{filename}"


def handler_for(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append(dict(self.headers))
            if site.while_serving:
                site.while_serving()
            body = site.files.get(self.path[1:])
            if site.statuses:
                return self.respond(site.statuses.pop(0), b"")
            if body is None:
                return self.respond(404, b"")
            wanted = self.headers.get("Range")
            unchanged = self.headers.get("If-Range") in (None, site.etag)
            if site.ranges and wanted and unchanged:
                begin = int(wanted.removeprefix("bytes=").removesuffix("-")) + site.shift
                site.shift = 0
                if begin >= len(body):
                    return self.respond(416, b"", {"Content-Range": f"bytes */{len(body)}"})
                headers = {"Content-Range": f"bytes {begin}-{len(body) - 1}/{len(body)}"}
                return self.respond(206, body[begin:], headers)
            return self.respond(200, body)

        def respond(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if site.etag:
                self.send_header("ETag", site.etag)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: site.cuts.pop(0)] if body and site.cuts else body)

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def serving() -> Iterator[Site]:
    """Serve a site on a free port of this machine."""
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_for(site)) as server:
        site.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


def files_in(folder: Path) -> set[str]:
    """All files in a folder but lock files, which are empty and stay."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}
