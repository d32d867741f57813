"""The HTTP gateway of a node: CloudEvents over HTTP, Server-Sent Events and one WebSocket.

`server.py` runs it beside a node; `app.py` lists the operations. A stopped gateway never stops its
node.
"""
