"""What Flyball must do for clients of one wire whose tier's provider speaks another."""

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
}
