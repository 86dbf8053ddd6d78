"""What gives way in a conversation, as it is kept so that nothing of it is lost."""

import base64
from dataclasses import dataclass
from hashlib import sha256

from governor.experience.gist import gist_of
from governor.experience.kinds import ExperienceKind
from governor.experience.trust import Way
from governor.ids import ExperienceId, SessionId, TenantId

# 80 bits: no two contents of one session are ever met by chance, and a reader compares the hash.
_INDEX_BYTES = 10
_PREFIX = "exp_"
# What the list of turns that gave way is known by.
LIST_MEDIA_TYPE = "application/vnd.flyball.turns+json"
_SUMMARY_CHARS_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepsake:
    """A content on its way to the store, under an index that says which it is.

    `way` is how it came in, which says how far it is trusted. `name` is the tool whose result it
    is, or whose words; `text` is what is read of it.
    """

    index: ExperienceId
    kind: ExperienceKind
    way: Way
    content: bytes
    media_type: str
    name: str
    text: str

    @property
    def summary(self) -> str:
        """Return in a few words what it holds."""
        return gist_of(self.text, chars_max=_SUMMARY_CHARS_MAX)


def index_of(content: bytes, *, tenant: TenantId, session: SessionId) -> ExperienceId:
    """Return the index of a content in a session: the same each time it is met there."""
    scope = f"{tenant}\0{session}\0".encode()
    digest = sha256(scope + sha256(content).digest()).digest()[:_INDEX_BYTES]
    return ExperienceId(_PREFIX + base64.b32encode(digest).decode().lower())
