"""A client of a running node, asynchronous or blocking.

The modules `lines` and `blocking_socket` import little, because commands such as `pub` are as slow
as their imports.
"""
