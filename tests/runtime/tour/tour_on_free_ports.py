"""The `flyball` command, except that the tour takes whatever ports are free."""

from typing import Any

from runtime.cli import main
from runtime.configuration.listen import Listen
from runtime.configuration.model import Config
from runtime.tour import stage

FREE_PORTS = Listen(agents="127.0.0.1:0", admin="127.0.0.1:0")

its_own_config = stage.tour_config


def on_free_ports(*arguments: Any, **named: Any) -> Config:
    return its_own_config(*arguments, **named).model_copy(update={"listen": FREE_PORTS})


stage.tour_config = on_free_ports
main()
