"""What a rule may withhold from a local command, and what is known of its energy."""

ENFORCEMENT: dict[str, str] = {
    "energy.attributed-where-counted": (
        "Where the processors count their energy, a call is charged its share by processor time, "
        "which is called an attribution; counters that are missing or cannot be read are not zero."
    ),
    "network.only-what-is-listed": (
        "A command whose rule lists destinations connects, sends and listens nowhere else, by no "
        "kind of socket; what it tried is counted and said to the model."
    ),
    "network.none-is-none": (
        'network = "none" leaves a command no network at all, this machine included.'
    ),
    "network.names-are-followed": (
        "A name in a rule is resolved before the command and while it runs; it opens public "
        "addresses alone, and one that cannot be resolved opens nothing."
    ),
    "network.outlives-the-sidecar": (
        "What a command may reach is held by the kernel after the sidecar was killed."
    ),
    "files.withheld": (
        "A rule's hidden paths are neither read nor changed, its read-only ones not changed, and "
        "nothing is started from its no_exec_from; links lead around none of it."
    ),
    "files.programs-close-gaps": (
        "Where the kernel takes programs at its security hooks, the names in a hidden place are "
        "not told and no code is mapped from where nothing may be started."
    ),
    "devices.standard": "With the standard devices a command opens no other, and makes none.",
    "system-calls.refused": (
        "A command makes no namespaces, mounts, kernel programs, keyrings or rings of its own."
    ),
    "confines.fail-closed": (
        "What a host cannot hold a command to is said, and denies the call where the rule "
        "requires isolation."
    ),
    "probes.count-per-command": (
        "An operator's probe counts what each command does, apart from all others."
    ),
    "probes.stop-a-command": (
        "A command that a probe counts further than its rule allows is ended, and told so."
    ),
    "probes.fail-closed": "A limit on a probe that does not run lets no command begin.",
    "probes.are-units": (
        "A probe can be assigned to one of four units, which budgets limit; where none that runs "
        "is assigned, a budget on the unit denies."
    ),
    "probes.no-wrong-structures": (
        "A probe is compiled with the running kernel's headers or with none of a kernel's; what "
        "would read structures at wrong places is refused."
    ),
    "probes.say-how-to-get-bcc": (
        "Without bcc, or with another package of that name, it is said how to get it."
    ),
}
