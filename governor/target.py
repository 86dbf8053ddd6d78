"""What a call is aimed at, and the patterns by which a budget or a rule picks calls out."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class CallKind(StrEnum):
    """What is called, or that a sub-session is carved out for calls to come."""

    TOOL = "tool"
    MODEL = "model"
    SUB_SESSION = "sub_session"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTarget:
    """What is called: a tool of an upstream, or a model on a tier."""

    kind: CallKind
    name: str
    upstream: str = ""
    tier: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMatch:
    """Which calls a budget is for; each part is a shell pattern, `*` takes everything."""

    tool: str = "*"
    upstream: str = "*"
    tier: str = "*"

    @property
    def takes_everything(self) -> bool:
        """Tell whether no call is left out."""
        return (self.tool, self.upstream, self.tier) == ("*", "*", "*")

    def covers(self, target: CallTarget) -> bool:
        """Tell whether every part matches."""
        return self.takes_everything or (
            fnmatchcase(target.name, self.tool)
            and fnmatchcase(target.upstream, self.upstream)
            and fnmatchcase(target.tier, self.tier)
        )


EVERYTHING = TargetMatch()
