"""What Flyball must do about calls of models, on any wire.

A part of `requirements.py`, which holds all of them together.
"""

MODELS: dict[str, str] = {
    "model.output-is-clamped": (
        "A call whose output no budget pays for in full is run with as much as can be paid, down "
        "to a least; the ledger decides, and the answer says so."
    ),
    "model.stream-cut-anywhere-is-settled": (
        "A stream that its provider breaks off at any byte ends with the wire's own error after "
        "the last whole event, and its hold is settled."
    ),
    "model.client-leaves-is-settled": (
        "A client that leaves a stream after any event stops the provider, and what was produced "
        "is charged."
    ),
    "model.stream-cut-at-ceiling": (
        "A stream ends where what is held for it ends, as an answer that reached its length."
    ),
    "model.output-is-bounded-on-every-server": (
        "The output is bounded by a field that the provider's server knows, and by no other in "
        "its place."
    ),
    "model.strange-success-is-served": (
        "An answer is served and charged by what it holds, however oddly its server says that it "
        "went well."
    ),
    "model.foreign-answer-is-said": (
        "Where a provider answers another API than was asked, the client is told which and what to "
        "configure, and not to ask again; the call is charged as it was held."
    ),
    "model.stream-cut-only-where-proven": (
        "A stream is cut only where it is proven to be above what is held for it: many small "
        "events prove nothing."
    ),
    "count.never-below-what-is-proven": (
        "What is charged without a report is never below what the text proves, also where that "
        "is more than was held."
    ),
    "count.failing-tokenizer-ends-no-call": (
        "A tokenizer that fails in any way, panics of its library included, leaves a bound in its "
        "place: the hold of the call is ended."
    ),
    "model.reader-stands-still": (
        "A client that stops reading a stream keeps neither hold nor slot beyond the call's time."
    ),
    "model.refused-prompt-keeps-the-key": (
        "A provider that refuses a prompt, and says nothing of the key, costs nobody the key."
    ),
    "model.own-faults-in-the-clients-words": (
        "What nobody foresaw is answered in the envelope of the client's wire, tells nothing of "
        "the inside, and settles the hold."
    ),
    "model.nothing-beside-the-budget": (
        "No request under /v1 is passed on that is not counted: what is not known is not served."
    ),
    "model.auto-goes-cheaper": (
        "Where the tier that was chosen for `auto` is too dear for what is left, the next cheaper "
        "one that can serve the request is asked."
    ),
}
