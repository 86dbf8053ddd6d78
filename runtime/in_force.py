"""The configuration in force, and the policy that follows from it: swapped together, whole."""

from governor.policy import Policy
from runtime.configuration.model import Config


class InForce:
    """What the process goes by now; whoever asks twice may get two answers."""

    def __init__(self, config: Config, policy: Policy) -> None:
        """Begin with what the start has read."""
        self.config = config
        self.policy = policy

    def adopt(self, config: Config, policy: Policy) -> None:
        """Go by these from now on; a call that runs keeps the rule that it began under."""
        self.config, self.policy = config, policy
