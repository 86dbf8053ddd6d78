"""Versions as HTTP speaks of them: ETag out, If-Match in (RFC 9110)."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Protocol, TypeVar

from fastapi import Header, Response

from memory_store.errors import VersionConflictError
from runtime.failures import INVALID_REQUEST, Problem, ProblemError

_ATTEMPTS_MAX = 5

IfMatch = Annotated[
    str | None,
    Header(description="the ETag that the change was made for; without it, for any version"),
]


class Versioned(Protocol):
    """A record with a version."""

    @property
    def version(self) -> int | str:
        """Return what is another after each change: a number that grows, or a name."""
        ...


V = TypeVar("V", bound=Versioned)


def tag(response: Response, record: Versioned) -> None:
    """Put the ETag of `record` on the answer."""
    response.headers["ETag"] = f'"{record.version}"'


def check_if_match(if_match: str | None, record: Versioned) -> None:
    """Return if the change was made for `record` as it is, or for any version.

    Raises:
        ProblemError: it was made for another version.
    """
    if if_match is None or if_match.strip() == "*":
        return
    # A weak tag (W/"3") never matches here: RFC 9110 asks for a strong comparison.
    if str(record.version) in {part.strip().strip('"') for part in if_match.split(",")}:
        return
    raise ProblemError(
        Problem(
            status=HTTPStatus.PRECONDITION_FAILED,
            code=INVALID_REQUEST,
            title="Version conflict",
            detail=f'If-Match does not name the present version, which is "{record.version}".',
            members={"actual": record.version},
        )
    )


def check_version_sent(sent: int | str | None, record: Versioned) -> None:
    """Return if the version that a body was sent back with is the present one, or none is.

    Raises:
        ProblemError: it is another: the body was read before somebody changed the record.
    """
    if sent is not None and sent != record.version:
        raise ProblemError(
            Problem(
                status=HTTPStatus.PRECONDITION_FAILED,
                code=INVALID_REQUEST,
                title="Version conflict",
                detail=(
                    f"version: {sent} is not the present version, which is {record.version}; "
                    "leave it out to change any version"
                ),
                members={"expected": sent, "actual": record.version},
            )
        )


async def changed(
    *,
    read: Callable[[], Awaitable[V]],
    write: Callable[[V], Awaitable[V]],
    if_match: str | None,
    version_sent: int | str | None = None,
) -> V:
    """Return what `write` made of the record that `read` found.

    `write` stores only over the version that it was given. A change for any version is
    therefore made again when somebody else was faster.

    Raises:
        ProblemError: `if_match`, or the version in the body, is another.
        VersionConflictError: the record changes faster than it can be read.
    """
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        record = await read()
        check_if_match(if_match, record)
        check_version_sent(version_sent, record)
        try:
            return await write(record)
        except VersionConflictError:
            is_for_one = if_match is not None or version_sent is not None
            if is_for_one or attempt == _ATTEMPTS_MAX:
                raise
    raise AssertionError("the last attempt returns or raises")
