"""What Flyball must do for the clients of model providers, whichever format they speak."""

WIRES: dict[str, str] = {
    "wire.golden-streams": (
        "A stream of any format is metered as its provider reports it; cut at any byte it is "
        "heard up to its last whole event, and never below what is true."
    ),
    "wire.relayed-as-it-came": (
        "What a provider streams reaches the client byte for byte, wherever it was cut on its way."
    ),
    "wire.ended-properly": (
        "A stream that Flyball ends itself is read by the provider's own client as an answer that "
        "reached its length; one that broke off is raised as an error."
    ),
    "wire.official-clients": (
        "The providers' own clients work against Flyball unchanged: chats, responses, "
        "embeddings, messages, streams, tools, images, and what they raise."
    ),
    "wire.denials-are-raised": (
        "A denial raises the error of a rate limit in the provider's own client, which does not "
        "try again where waiting does not help."
    ),
    "wire.keys-stay-apart": (
        "An agent's token is taken as any client sends it and never leaves for a provider, whose "
        "key never reaches an agent."
    ),
    "wire.nothing-beyond-the-price": (
        "What costs beyond the price of the tokens, or cannot be counted before the call, is "
        "refused by name unless the tier says that it serves it."
    ),
    "wire.counting-is-governed": (
        "Counting the tokens of a message is relayed as a call that costs no tokens."
    ),
}
