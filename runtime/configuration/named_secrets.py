"""Secrets that the file names by the variable of the environment that holds them."""

from runtime.errors import ConfigError
from runtime.settings import secret_from_environment, unset
from runtime.withheld import withhold


def secret_named(variable: str, where: str) -> str:
    """Return what the variable holds that stands in the file at `where`.

    Raises:
        ConfigError: it is not set.
    """
    value = secret_from_environment(variable)
    if value is None:
        raise ConfigError(f"{where}: {unset(variable)}")
    return withhold(value)
