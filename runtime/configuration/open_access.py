"""Who everybody is while authentication is off."""

from governor.ids import PrincipalId
from memory_store.errors import NotFoundError
from memory_store.identities import Role
from memory_store.principals import PrincipalBook
from runtime.configuration.model import Auth
from runtime.errors import ConfigError
from tool_gateway.identity import Caller


async def open_caller_of(auth: Auth, principals: PrincipalBook) -> Caller | None:
    """Return who everybody is, None while callers have to show a token.

    Raises:
        ConfigError: the principal that the configuration names is no agent.
    """
    return None if auth.mode == "token" else await caller_named(auth.principal, principals)


async def caller_named(name: str, principals: PrincipalBook) -> Caller:
    """Return the agent of that name as a caller that needs no token.

    Raises:
        ConfigError: there is none that may call.
    """
    try:
        found = await principals.get(PrincipalId(name))
    except NotFoundError:
        found = None
    if found is None or found.disabled or found.role is not Role.AGENT:
        raise ConfigError(
            f"auth.principal = {name!r}: there is no agent of that name that may call; "
            'start with mode = "token" and make it at /admin/v1/principals, or name another'
        )
    return Caller(tenant=found.tenant, agent=found.principal_id, token_id="none")  # noqa: S106
