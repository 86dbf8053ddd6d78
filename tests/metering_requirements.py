"""What is owed where programs in the kernel count a command and hold it."""

METERING: dict[str, str] = {
    "egress.is-counted": (
        "What a local command sends is counted by the kernel, with all that it starts, and "
        "charged to its call."
    ),
    "egress.stops-at-the-byte": (
        "A packet that would take a command over its egress limit is not let out, nor is any "
        "after it; the command is killed, and told the limit, what it sent and to whom."
    ),
    "egress.outlives-the-sidecar": (
        "A limit on egress that is in force stays so when the sidecar is killed, where a bpf "
        "file system is mounted; the next start takes it away."
    ),
    "egress.budget-denies": (
        "A budget of egress bytes denies the call whose limit does not fit into what remains."
    ),
    "metering.lost-is-counted": (
        "Events that the ring had no room for are counted and reported, never left out in silence."
    ),
    "metering.says-what-is-missing": (
        "Each part of metering that a host lacks is absent with its reason, and a unit that "
        "nobody counts is unmeasured, never zero."
    ),
    "programs.are-as-compiled": (
        "The committed objects have the code and the maps that the pinned compiler makes of "
        "their sources."
    ),
}
