"""Names that several parts share: what an id may look like, where outcomes are reported."""

from typing import Annotated

from pydantic import Field

# Ids stand in paths, file names and other people's programs.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
ID_RULE = "use 1 to 64 letters, digits, '.', '_' and '-', of which the first is a letter or a digit"

OUTCOMES = "/v1/outcomes"

Id = Annotated[str, Field(pattern=ID_PATTERN)]
