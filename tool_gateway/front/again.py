"""A request's body, or its first part, given once more to whoever looks at it next."""

from starlette.types import Message, Receive


def again(first: Message, receive: Receive) -> Receive:
    """Return a channel that gives `first` once more, and then what `receive` gives."""
    waiting = [first]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


def body_again(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives a whole body that was read, and then what `receive` gives."""
    return again({"type": "http.request", "body": body, "more_body": False}, receive)
