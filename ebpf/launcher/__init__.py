"""The program that enters a domain, gives up every privilege and becomes the command.

It runs in a bare interpreter before every command, so it imports nothing but `os`, `sys`,
`ctypes`, `marshal`, `resource`, `select` and itself: each module more is paid for by each call.
"""
