"""The scripted model as a server, for sidecars that ask a model."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import uvicorn

from runtime.tour.scripted_model import create_app

# What a configuration says of it, tenfold dearer where it is larger.
TWO_TIERS = """
[[provider]]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"

[[tier]]
name = "low"
provider = "scripted"
model = "scripted-small"
input_usd_per_mtok = 1
output_usd_per_mtok = 1

[[tier]]
name = "high"
provider = "scripted"
model = "scripted-large"
input_usd_per_mtok = 10
output_usd_per_mtok = 10
"""


@asynccontextmanager
async def a_model() -> AsyncIterator[int]:
    """Serve the scripted model on loopback and yield its port."""
    server = uvicorn.Server(uvicorn.Config(create_app(), lifespan="off", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True
