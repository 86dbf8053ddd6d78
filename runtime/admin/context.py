"""What a route is given beside its request."""

from typing import Annotated

from fastapi import Depends, Request

from runtime.admin.parts import AdminParts


def _parts(request: Request) -> AdminParts:
    parts: AdminParts = request.app.state.parts
    return parts


Parts = Annotated[AdminParts, Depends(_parts)]
