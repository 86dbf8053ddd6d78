"""What Flyball must do between wire formats, and what it tells of model calls."""

TRANSLATION: dict[str, str] = {
    "model.translation-keeps-what-both-say": (
        "What both wires can say of a request or an answer survives the way there and back."
    ),
    "model.translation-refuses-by-name": (
        "What the provider's wire cannot be told, and would change the answer or its price, is "
        "refused by the name of its field."
    ),
    "model.translation-streams-the-same": (
        "A translated stream says, event by event, what the translated whole answer says."
    ),
    "model.translation-serves-official-clients": (
        "The official clients of OpenAI and of Anthropic are served by tiers whose provider "
        "speaks only the other's wire, and charged what the provider's own wire says."
    ),
    "model.spans-by-the-conventions": (
        "A model call has a span and metrics by the semantic conventions for generative AI; the "
        "labels of metrics are configured names and words of ours."
    ),
    "model.no-content-in-spans": "Nothing of what was asked or answered is in spans or metrics.",
}
