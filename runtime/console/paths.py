"""Where the console's own pages are, and who leads to them."""

from dataclasses import dataclass

PREFIX = "/console"
LOGIN = f"{PREFIX}/login"
LOGOUT = f"{PREFIX}/logout"
THEME = f"{PREFIX}/theme"
TENANT = f"{PREFIX}/tenant"
STATIC = f"{PREFIX}/static/"
# What is answered before anybody has signed in.
OPEN_PATHS = frozenset({LOGIN, THEME})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the navigation; `icon` names a symbol of the template `icons.html`."""

    path: str
    label: str
    icon: str
    group: str = ""


NAVIGATION = (
    Entry(path=PREFIX, label="Overview", icon="overview"),
    Entry(path=f"{PREFIX}/approvals", label="Approvals", icon="approvals"),
    Entry(path=f"{PREFIX}/sessions", label="Sessions", icon="sessions"),
    Entry(path=f"{PREFIX}/calls", label="Calls", icon="calls"),
    Entry(path=f"{PREFIX}/memory", label="Memory", icon="memory"),
    Entry(path=f"{PREFIX}/budgets", label="Budgets", icon="budgets"),
    Entry(path=f"{PREFIX}/router", label="Router", icon="router"),
    Entry(path=f"{PREFIX}/providers", label="Providers", icon="providers"),
    Entry(path=f"{PREFIX}/upstreams", label="Upstreams", icon="upstreams"),
    Entry(path=f"{PREFIX}/audit", label="Audit log", icon="audit"),
)
