"""A server for a page in a browser: it sends the page, and passes requests on to a node's gateway.

    python examples/browser/serve.py --gateway http://127.0.0.1:8080 --port 8000

The gateway answers no pages of other origins, and a token has no place in a page. So the page talks
to this server, which adds the token, and decides what the page may do: it may read and publish.
"""

import argparse
import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PAGE = Path(__file__).with_name("index.html").read_bytes()
ALLOWED = "/v1/events"
PASSED_ON = ("Content-Type", "Last-Event-ID", "Idempotency-Key")


class Handler(BaseHTTPRequestHandler):
    """One request of the page."""

    gateway = "http://127.0.0.1:8080"
    token = ""

    def do_GET(self) -> None:
        """Send the page, or a stream of events."""
        if urlsplit(self.path).path == "/":
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)
        else:
            self._pass_on(b"")

    def do_POST(self) -> None:
        """Publish an event."""
        self._pass_on(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _pass_on(self, body: bytes) -> None:
        if urlsplit(self.path).path != ALLOWED:
            self.send_error(404)
            return
        place = urlsplit(self.gateway)
        connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port)
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.end_headers()
            while piece := answer.read1():
                self.wfile.write(piece)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # The page was closed.
        except OSError as error:
            self.send_error(502, f"the gateway cannot be reached: {error}")
        finally:
            connection.close()


def main() -> None:
    """Read the command line, and serve."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gateway", default=Handler.gateway)
    options.add_argument("--token", default="")
    options.add_argument("--port", type=int, default=8000)
    given = options.parse_args()
    Handler.gateway, Handler.token = given.gateway, given.token
    with ThreadingHTTPServer(("127.0.0.1", given.port), Handler) as server:
        server.daemon_threads = True
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
