"""What Flyball must do to know what a model call used, and what it cost."""

COUNTING: dict[str, str] = {
    "count.bound-never-below": (
        "Where nobody reports usage and no tokenizer is named, what is charged is never below "
        "the true usage of any tokenizer, for text, tools, choices and hidden markers."
    ),
    "count.bound-not-wasted": (
        "The bound of a request with tools is less than two tokens for each byte that is sent, "
        "whatever characters its descriptions hold."
    ),
    "count.tokenizer-exact": (
        "Where a tier names a tokenizer, a stream that is cut anywhere is counted as it counts."
    ),
    "count.images": (
        "An image is held by its provider's rule for its size, or the largest rule known, and "
        "never as the text that it is sent as."
    ),
    "count.usage-that-lies": (
        "Usage that cannot be true is not believed: the next best source is settled, never less "
        "than was produced, and the record says why."
    ),
    "price.cache-writes": (
        "What is written to a provider's cache is charged at its own price, and held at it."
    ),
    "answers.kept-by-policy": (
        "An answer is kept only where the policy says so and for its own tenant; a repeated "
        "request gets it for nothing, and is a call all the same."
    ),
}
