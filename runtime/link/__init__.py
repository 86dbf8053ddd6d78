"""How the processes of one sidecar reach each other: named operations over a Unix socket."""
