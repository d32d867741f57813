"""A signed archive of news: a topic whose events stay, and which any node can verify.

    python examples/news_archive.py archive

Two nodes run in this process. The first creates a topic and publishes in it. The second reads the
history, exports it to a CAR file, and a third, which never met the first, imports the file: every
block is verified by its hash and its author's signature.
"""

import sys
from pathlib import Path

from smartpubsub import SyncNode
from smartpubsub.protocols.car import read_car

HERE = ["/ip4/127.0.0.1/tcp/0"]
NEWS = ["the harbour is open", "storm warning", "the storm is over"]


def main(folder: Path) -> None:
    """Publish, archive, and restore."""
    file = folder / "news.car"
    with (
        SyncNode(data=folder / "editor", listen=HERE, protocol="pulsarcast") as editor,
        SyncNode(
            data=folder / "reader", listen=HERE, bootstrap=editor.addresses, protocol="pulsarcast"
        ) as reader,
    ):
        topic = editor.create_topic("harbour news", ordered=True)
        for text in NEWS:
            topic.publish(text=text)
        copy = reader.topic(topic.id)
        for entry in copy.history(last=10):
            print(f"{entry.height}  {entry.text()}  (signed by …{entry.author[-6:]})")
        print(f"{copy.export(file).block_count} blocks in {file.name}")
    with (
        SyncNode(data=folder / "library", listen=HERE, protocol="pulsarcast") as library,
        file.open("rb") as opened,
    ):
        _, blocks = read_car(opened)
        print(f"{library.import_blocks(list(blocks))} blocks are valid")
        print("restored:", [entry.text() for entry in library.topic(topic.id).history(last=10)])


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "archive"))
