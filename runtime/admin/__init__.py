"""The administrators' HTTP interface: budgets, people, sessions, records and health."""

from runtime.admin.app import create_admin_app
from runtime.admin.parts import AdminParts

__all__ = ["AdminParts", "create_admin_app"]
