"""Where the control socket of a data folder is, and the limit of a line.

Clients import this, so it imports little: pathlib takes as long as a whole request.
"""

import os

SOCKET = "control.sock"
LINE_BYTES_MAX = 8 << 20
"""The longest line: a request, an answer or an event."""


def socket_path(folder: str) -> str:
    """The path of the control socket of a data folder."""
    link = os.path.join(folder, SOCKET)  # noqa: PTH118
    return os.readlink(link) if os.path.islink(link) else link  # noqa: PTH114, PTH115
