"""What of a configuration can be used, part by part, so that one fault hides no other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import BaseModel

from runtime.configuration.content import detectors_of
from runtime.configuration.contention import contention_of
from runtime.configuration.flow import flow_policy_of
from runtime.configuration.model import Config
from runtime.configuration.oauth import resource_terms_of
from runtime.configuration.telemetry import export_terms_of
from runtime.configuration.translate import (
    budgets_of,
    policy_of,
    prices_of,
    providers_of,
    tiers_of,
)
from runtime.configuration.upstreams import upstreams_of
from runtime.configuration.webhooks import webhooks_of
from runtime.errors import ConfigError
from runtime.model_gateway.providers.spec import ProviderSpec
from runtime.provider_doubts import check_keys
from runtime.token_files import TENANT


@dataclass(slots=True, kw_only=True)
class SoundParts:
    """A configuration without what cannot be used, and why it cannot.

    The tables of all `providers` stay in it, as tiers name them; here are those with their keys.
    """

    config: Config
    providers: tuple[ProviderSpec, ...] = ()
    faults: list[str] = field(default_factory=list)

    def reset_unless(self, table: str, made: Callable[[Config], object]) -> None:
        """Let a table be as it is by default if nothing can be made of it."""
        if self._tried(made, self.config):
            return
        usual: object = Config.model_fields[table].get_default(call_default_factory=True)
        self.config = self.config.model_copy(update={table: usual})

    def keep(self, table: str, made: Callable[[Config], object]) -> None:
        """Let of a list of tables be left those of which something can be made."""
        kept = tuple(one for one in self._each(table) if self._tried(made, self._with(table, one)))
        self.config = self.config.model_copy(update={table: kept})

    def look(self, made: Callable[[Config], object]) -> None:
        """Note why nothing can be made of a part, which nothing here needs."""
        self._tried(made, self.config)

    def have_keys(self) -> None:
        """Take the providers whose keys are there."""
        found: list[ProviderSpec] = []
        for one in self._each("provider"):
            alone = self._with("provider", one)
            if self._tried(check_keys, alone):
                found.extend(providers_of(alone))
        self.providers = tuple(found)

    def _each(self, table: str) -> tuple[BaseModel, ...]:
        listed: tuple[BaseModel, ...] = getattr(self.config, table)
        return listed

    def _with(self, table: str, one: BaseModel) -> Config:
        return self.config.model_copy(update={table: (one,)})

    def _tried(self, made: Callable[[Config], object], config: Config) -> bool:
        try:
            made(config)
        except ConfigError as error:
            if str(error) not in self.faults:
                self.faults.append(str(error))
            return False
        return True


def sound_parts_of(config: Config) -> SoundParts:
    """Return what can be used of a configuration, and every fault of the rest."""
    parts = SoundParts(config=config)
    parts.reset_unless("default", lambda whole: policy_of(whole.model_copy(update={"rule": ()})))
    parts.keep("rule", policy_of)
    parts.keep("budget", lambda whole: budgets_of(whole, tenant=TENANT))
    parts.reset_unless("pricing", prices_of)
    parts.keep("tier", tiers_of)
    parts.have_keys()
    parts.keep("upstream", upstreams_of)
    parts.reset_unless("telemetry", lambda whole: export_terms_of(whole.telemetry))
    parts.keep("webhook", lambda whole: webhooks_of(whole.webhook))
    parts.look(lambda whole: contention_of(whole.contention, whole.commons))
    parts.look(lambda whole: resource_terms_of(whole.oauth))
    parts.look(lambda whole: detectors_of(whole.redaction))
    parts.look(lambda whole: flow_policy_of(whole.flow))
    return parts
