"""The gateway's web page: static files of this package."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

from starlette.responses import Response

from smartpubsub.gateway.operations import Call, Operation
from smartpubsub.gateway.problems import ProblemError

HTML = "text/html; charset=utf-8"

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_INLINE_SCRIPT = re.compile(rb"<script type=\"importmap\">(.*?)</script>", re.DOTALL)


class PageOperations:
    """Operations that send the page."""

    def __init__(self, page: str = "index.html") -> None:
        root = resources.files("smartpubsub.gateway") / "page"
        self._page = (root / page).read_bytes()
        self._files: dict[str, tuple[bytes, str]] = {}
        for folder, prefix in ((root, ""), (root / "vendor", "vendor/")):
            for file in folder.iterdir():
                kind = _TYPES.get(f".{file.name.rpartition('.')[2]}")
                if kind is not None:
                    self._files[prefix + file.name] = (file.read_bytes(), kind)
        self._policy = _policy(self._page)

    @property
    def operations(self) -> list[Operation]:
        """All of them."""
        return [
            Operation("page", "GET", "/", "The page", None, self._send_page, media_type=HTML),
            Operation(
                "page_file",
                "GET",
                "/page/{name:path}",
                "A file of the page",
                None,
                self._send_file,
                media_type="application/octet-stream",
                is_documented=False,
            ),
        ]

    async def _send_page(self, _call: Call) -> Response:
        headers = {"Content-Security-Policy": self._policy, "Cache-Control": "no-cache"}
        return Response(self._page, media_type=HTML, headers=headers)

    async def _send_file(self, call: Call) -> Response:
        found = self._files.get(call.path["name"])
        if found is None:
            raise ProblemError(404, "the page has no such file")
        content, kind = found
        headers = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
        return Response(content, media_type=kind, headers=headers)


def _policy(page: bytes) -> str:
    """Allow the page its own files, its import map, and nothing else."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"
        for script in _INLINE_SCRIPT.findall(page)
    ]
    return (
        f"default-src 'none'; script-src 'self' {' '.join(hashes)}; style-src 'self';"
        " connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
