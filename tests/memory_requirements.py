"""Required behaviours of the experience memory."""

MEMORY: dict[str, str] = {
    "memory.lane-by-way": (
        "The lane of a write follows from who writes by which way and what its session has seen, "
        "never from what is asked for; what is derived is trusted as its worst source."
    ),
    "memory.only-the-house-instructs": (
        "Whatever is written, superseded, derived, promoted, imported or voted, nothing that did "
        "not come from an operator or a user stands in a lane that instructs."
    ),
    "memory.quarantine": (
        "A write that claims to instruct, teaches from untrusted sources or replaces somebody "
        "else's waits in quarantine until an operator or a quorum promotes it."
    ),
    "memory.lanes-asked": (
        "What anybody may have written is shown to who asks for that lane, or has seen such."
    ),
    "memory.writers-withdraw-their-own": (
        "An agent withdraws what it wrote itself and nobody else's, and less once its session "
        "has seen what others wrote."
    ),
    "memory.tenants-apart": (
        "Whatever is asked of the memory, by whatever way, no word of another tenant is answered, "
        "what is another's is answered like what is not there, and nothing of it changes."
    ),
    "memory.revoke-by-writer": (
        "With a writer that is revoked goes all that was made of what it wrote, by whatever "
        "steps, and nothing else."
    ),
    "memory.signed-writers": (
        "A signature vouches for writer and lane of each experience; where it does not hold the "
        "lane is that of strangers."
    ),
    "memory.quoted-as-data": (
        "What does not instruct is shown between marks that its writer cannot know, with its "
        "source, and nothing in it or said of it breaks out of them."
    ),
    "memory.bytes-charged": (
        "The bytes of an experience over HTTP are charged as what their reader gets: a text by its "
        "tokens, other bytes by three to a token, never more than is held or asked for."
    ),
    "memory.problems": (
        "Whatever the memory's HTTP address does not serve is answered by a problem document, with "
        "the methods that are served."
    ),
    "memory.namespaces-listed": (
        "An agent lists the namespaces that are open to it, with its rights and the room that is "
        "left there, and learns of no other."
    ),
    "memory.nothing-shown-nothing-marked": (
        "A session that asks for an archived result that is not there for it has seen nothing by "
        "it; one that reads what is there is marked before it does."
    ),
    "memory.vouched-files": (
        "An administrator who vouches for a file of another house has its lines stand where the "
        "file says, never above the lane that is vouched for, and never where they would instruct."
    ),
    "memory.lane-quotas": (
        "A writer that fills a lane is refused there, with the limit and when there is room "
        "again, and everybody else writes on."
    ),
    "memory.tiers": (
        "Each stage of a search, filter, retrieve, expand, rerank and summarise, can be done at a "
        "low, a middle and a high tier, each at its price."
    ),
    "memory.tier-forced": "Who names a memory tier gets it, if what is left is enough for it.",
    "memory.tier-degrades": (
        "A budget of tokens, time or money that is short makes a search cheaper and never refuses "
        "it."
    ),
    "memory.tiers-safe-default": "Until something learned is in force, a search is as usual.",
    "memory.tiers-learn": (
        "Which searches are worth more work is learned from what is said of their answers."
    ),
    "memory.tiers-logged": "Each choice of a plan is logged with how probable every plan was.",
    "memory.duplicates-named": (
        "What a search leaves out, as the same or for want of room, is named and never dropped."
    ),
    "memory.sharing-learned": (
        "What enters the bank of a team is learned from use: whether others read it and "
        "succeeded, were misled, or did the same work again."
    ),
    "memory.sharing-links": "What a bank has already is linked to what is there, never dropped.",
    "memory.sharing-deterministic": (
        "The same offer to the same state of a bank is decided alike."
    ),
    "memory.sharing-explores": (
        "A share of the admissions is tried out, each with its chance in the log."
    ),
    "memory.workspace-bounded": (
        "The workspace of a session takes no more tokens than it may, and says what it left out."
    ),
    "memory.compaction-replaces-old-results": (
        "In a long conversation old results of tools give way to a summary and an index under "
        "which all of each is read, byte for byte."
    ),
    "memory.compaction-touches-no-pin": (
        "Compaction never touches what a rule pins, the system prompt or the last turns, and "
        "never parts a call of a tool from its result."
    ),
    "memory.compaction-is-stable": (
        "What gave way is the same words in each later request, written once, and the border "
        "moves seldom, so that providers' caches of prompts keep working."
    ),
    "memory.compaction-fails-open": (
        "What cannot be kept is left whole in the conversation, and counted."
    ),
    "memory.compaction-is-accounted": (
        "What is held for a call is for the conversation as it is sent; the tokens saved are "
        "counted, recorded and told to the client."
    ),
    "memory.compaction-by-policy": (
        "The configuration says by model and agent from how many tokens on, how many turns stay, "
        "and what is pinned."
    ),
    "memory.compaction-folds-turns": (
        "Where it is allowed, whole old turns give way to a report that quotes no tool, out of "
        "which every message is put back as it was."
    ),
    "memory.found-by-neighbours": (
        "What answers a question is found by the words of what stands before it in its session."
    ),
    "memory.found-by-actor": (
        "Who is named in a question is asked for, without being taken for a word of the text."
    ),
    "memory.found-by-time": (
        "A question that names a day, a month or a year is answered by what was told then first."
    ),
    "memory.found-in-chinese": "Texts without spaces between words are found by their words.",
    "memory.found-in-any-text": (
        "A text or a question of any length, in any script, with any signs, is read to a bound "
        "and never as a query language."
    ),
    "memory.forgotten-leaves-no-trace": (
        "What was removed changes neither what is found nor in which order."
    ),
    "memory.unseen-says-nothing": (
        "What a reader may not see changes neither what it finds nor in which order."
    ),
    "eval.memory": (
        "`flyball eval memory` reports by the protocol what of the evidence is found, as the "
        "interfaces say."
    ),
    "eval.memory-never-peeks": (
        "What is learned for a conversation is learned from the others alone."
    ),
    "memory.byte-for-byte": (
        "What was written is read byte for byte, after its hash was checked over the whole."
    ),
    "memory.receipts": (
        "Each read comes with a receipt that proves which bytes were read, and that the log knew "
        "them; one that was changed proves nothing."
    ),
    "memory.chained-log": (
        "What happened to the experiences of a tenant is logged without gaps, chained by hashes."
    ),
    "memory.idempotent-writes": "What a call has written already is not written again.",
    "memory.supersede": (
        "A correction stands beside what it corrects, which stays as it was written and says "
        "until when it was true and when the house heard of it."
    ),
    "memory.room": (
        "What does not fit the tenant's or the namespace's room is refused with what to do."
    ),
    "memory.revoke-writer": (
        "What a writer wrote is revoked together with all that was made of it, and what it had "
        "corrected stands again."
    ),
    "memory.erase": (
        "What is erased leaves a tombstone in a log that is as valid as before, and no row, word, "
        "vector, use, blob or byte, nor what was made of it."
    ),
    "memory.corrections": (
        "Of a chain of corrections the latest that stands is found, whichever of them are "
        "revoked, erased or promoted again; one that has had its time brings no error back."
    ),
    "memory.cut-short": (
        "A withdrawal that a crash or its caller cut short is finished by the next purge as it "
        "was ordered: what others made of one's own is put aside then too, and not erased."
    ),
    "memory.gathered-writes": (
        "Writes that come together share a transaction; one that cannot be stored fails alone."
    ),
    "memory.replicas": (
        "Sidecars on one server write the experiences of a tenant together: none is lost, the "
        "log has no gap, and nothing that is made of what was revoked stands."
    ),
    "memory.retention": (
        "Experiences go when they have run out, or by tenant, kind and age; what was made of them "
        "has a time of its own, and what a crash left over goes too."
    ),
    "memory.fsck": (
        "Whatever is changed behind the store's back is found: in the log, the rows, the "
        "standings, the lanes, the contents and the sums."
    ),
    "memory.fsck-whole": (
        "Looking through the memory tells of every kind of damage to rows, log, ties, words and "
        "contents, whatever stands where, and never falls over any."
    ),
    "memory.damage-apart": (
        "An experience that cannot be read is said to be damaged, and hides no other one."
    ),
    "memory.scrub-due": (
        "What an erasure could not overwrite at once, for a reader or a crash, is overwritten "
        "later: that it is due is as durable as the erasure."
    ),
    "memory.corruption": "A content that is missing or not what was written is said to be so.",
    "memory.transfer": (
        "What is carried out as lines is the same where it is taken in; a line that is none is "
        "told of, and the others are taken."
    ),
    "memory.crash": (
        "What was acknowledged survives a process that is killed; what was erased is not back."
    ),
    "memory.full-disk": "A full disk refuses what is written then, and loses nothing else.",
    "memory.purge-and-read": (
        "Who reads while something is erased gets all of it, or is told that it is gone."
    ),
    "memory.bad-input": (
        "Text that no database holds, contents too large, drafts that contradict themselves and "
        "clocks that disagree get a clear error or are kept safely; nothing else is lost."
    ),
    "memory.read-back": (
        "What is written is found by what it is about and read byte for byte, with a receipt."
    ),
    "memory.others-unknown": (
        "An experience that a caller may not read is answered like one that there is not, "
        "whatever is asked of it."
    ),
    "memory.keys": "A write with an idempotency key happens once and is answered again.",
    "memory.charged": (
        "Bytes, writes and tokens read are held before and settled at what was used, at their "
        "price and never above the hold; budgets of theirs deny."
    ),
    "memory.short-budget": (
        "A reading that a budget is too short for is made as long as what is left of it, and says "
        "so; where nothing useful is left it is denied."
    ),
    "memory.bounded": "No reading is longer than its bound, and each names what it leaves out.",
    "memory.reloaded": (
        "What the file says of the memory counts from the next reload on; what needs a restart is "
        "named."
    ),
    "memory.shared-by-grant": "A namespace is read and written by whom it is granted to.",
    "memory.refused-clearly": (
        "What cannot be kept or asked is refused with what to do, and the house goes on."
    ),
    "memory.grep": "The lines of an experience that match are found in linear time.",
    "memory.forget-own": "An agent erases what it wrote, and nobody finds or reads it again.",
    "memory.feedback-noted": "What is said of experiences is kept with who said it.",
    "memory.resources": (
        "Experiences are listed and read as resources of the protocol, in both of its eras."
    ),
    "memory.recorded": (
        "Results too large to show become experiences of their tool, and a memory that fails "
        "holds no result back."
    ),
    "memory.marks-what-it-shows": (
        "A session that is shown what anybody may have written writes as untrusted from then on."
    ),
    "eval.context": (
        "Recorded runs are lived again over a real store: how much smaller a workspace is, whether "
        "all comes back byte for byte, and whether what later calls need is in reach."
    ),
    "memory.client": (
        "A program writes, finds, reads and forgets by the client library, waiting or with a loop."
    ),
    "memory.administration": (
        "Administrators see every experience, teach, promote, withdraw, erase and give rights; "
        "each change says who made it and why."
    ),
    "memory.carried": (
        "A tenant's memory is exported and imported byte for byte; what cannot be taken is named, "
        "and what does not add up is found."
    ),
    "memory.summaries": (
        "The best searches tell of long experiences in the words of a model, on the house's "
        "budget, bounded, marked as such and never of what instructs; else in their own."
    ),
    "memory.playbooks-administered": (
        "Administrators read playbooks, go back to a version of one, and take a bullet over as "
        "their own word; each change says who made it."
    ),
    "memory.figures": (
        "What is kept by lane and kind, what quiet work cost and saved, how tasks of each class "
        "went, and how searches were chosen is told."
    ),
    "memory.tiers-rolled-back": (
        "What was learned of searches is put in force by a word, and taken back by another."
    ),
    "memory.sharing-concurrent": (
        "Agents that share at once lose no write, and what is learned of their sharing is not "
        "lost either."
    ),
}
