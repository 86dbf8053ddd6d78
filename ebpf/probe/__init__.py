"""The thin way to libbpf, and what its maps and rings hold."""
