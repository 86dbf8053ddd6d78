"""Where the store is: in the state directory, or at a PostgreSQL server's URL."""

from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from runtime.configuration.model import Config
from runtime.errors import ConfigError

VARIABLE = "FLYBALL_STORE_URL"


def store_url_of(config: Config, from_environment: SecretStr | None) -> SecretStr | None:
    """Return the server's URL, None for a store in the state directory.

    The environment goes before the file, and only there may a password stand.

    Raises:
        ConfigError: the file names a password; the message does not repeat it.
    """
    if from_environment is not None and from_environment.get_secret_value():
        return from_environment
    in_file = config.store.url
    if in_file is not None and _has_password(in_file.get_secret_value()):
        raise ConfigError(
            f"store.url: holds a password; put the whole URL into {VARIABLE} and leave the key out"
        )
    return in_file


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        # It cannot be read, so nobody can say that nothing in it is secret.
        return True
    return parts.password is not None or "password" in parse_qs(parts.query)
