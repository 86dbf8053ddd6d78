"""Made-up dialogues and questions about them, whose evidence is known because it was put there.

Two people meet in sessions and talk about subjects for some turns each. What a question asks for
is told in one turn or comes out when the other one asks back, in words that the question does not
use; both people talk about the same subjects at other times, and words of a subject come up in
turns that answer nothing. Nothing is taken from any data set.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from benchmarks.memory_topics import TOPICS, Topic
from governor.retrieval.moments import MS_PER_DAY
from runtime.evaluate.memory.conversations import Conversation, Question, Turn, tokens_of


def _listed(text: str) -> list[str]:
    """Return what a text lists between semicolons."""
    return [part.strip() for part in text.replace("\n", " ").split(";") if part.strip()]


NAMES = _listed("""
Alma; Boris; Carla; Dmitri; Elena; Farid; Gwen; Hugo; Ines; Jonas; Keiko; Luis; Mona; Nadia; Omar;
Petra; Quinn; Rosa; Sven; Tara; Uma; Viktor; Wanda; Xavier; Yusuf; Zoe; Amir; Bella; Cyrus; Dora
""")
TIMES = _listed("""
yesterday; last week; last Friday; two days ago; last month; on Monday; this morning; on Saturday
night; the week before last; in March; three weeks ago; last weekend; on the first of June; a few
days ago; last summer; last Tuesday; in 2021; four years ago
""")
PLACES = _listed("""
at the old mill; near the harbour; in my aunt's village; at the community centre; by the lake; in
the school gym; on the island; behind the station; in a cellar downtown; at a farm up north
""")
PEOPLE = _listed("""
my sister; two colleagues; my neighbour Pat; an old friend from school; my father; the kids; a
stranger from the internet; my partner; our whole team; my cousin
""")
REASONS = _listed("""
I needed something just for me; my doctor told me to slow down; it reminds me of my childhood;
somebody gave me a voucher; I was tired of waiting; I wanted to make her proud; it was cheaper than
I thought; I had promised it for years; the news that week shook me; I love trying what scares me
""")
FEELINGS = _listed("""
so proud and a little scared; completely worn out; happier than in a long time; nervous at first;
relieved that it was over; like a new person; a bit sad, to be honest; grateful for every minute;
surprised how calm it made me
""")
PLANS = _listed("""
do it again next year; teach it to others; write it all down; take a break first; bring my
mother along; try a harder one; save up for a better one; make a little film of it
""")
GREETINGS = _listed("""
Hey {other}! Long time no see. How have you been?; Hi {other}, good to hear from you!; What's up,
{other}? Anything new?; Hello {other}! I've been meaning to call you.; Hey, how was your week?
""")
REACTIONS = _listed("""
Wow, {other}, that is amazing!; That sounds great, {other}.; Oh no, I'm sorry to hear that.; Good
for you!; I can imagine that.; That's so cool! I'm glad for you.; Nice, thanks for telling me.;
Really? I had no idea, {other}!; That must have been something.
""")
COMMENTS = _listed("""
I always think of {word} when I hear that.; {Word} and {second}, that's the best part of it.; My
brother is crazy about {word}, too.; You should see the {word} they have over there.; I never
understood {word}, to be honest.; {Word} can be hard, but it's worth it.; Do you still like
{word}?; I'd love to know more about {word} one day.
""")
CLOSINGS = _listed("""
Take care, {other}!; Talk to you soon.; Keep me posted, {other}.; Bye, see you next week!
""")
# What may come out when the other one asks back: how it is asked, told, and asked for later.
SLOTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], Sequence[str], tuple[str, ...]]] = {
    "when": (
        ("When was that?", "Oh, when did that happen?", "Is that long ago?"),
        ("It was {it}.", "{It}, I think.", "That was {it}, time flies."),
        TIMES,
        (
            "When did {who} {asked}?",
            "On which day did {who} {asked}?",
            "When was it that {who} {told}?",
        ),
    ),
    "where": (
        ("Where was that?", "Where did you do it?", "Whereabouts?"),
        ("It was {it}.", "{It}, would you believe it?", "Right {it}."),
        PLACES,
        ("Where did {who} {asked}?", "In what place was it that {who} {told}?"),
    ),
    "who": (
        ("Were you alone?", "Who was with you?", "Did anybody help you?"),
        ("{It} came with me.", "No, {it} was there, too.", "Together with {it}."),
        PEOPLE,
        ("Who was with {who} when {who} {told}?", "Who did {who} {asked} with?"),
    ),
    "why": (
        ("What made you do that?", "How come?", "Why that?"),
        ("Well, {it}.", "Because {it}.", "To be honest, {it}."),
        REASONS,
        ("Why did {who} {asked}?", "What was the reason that {who} {told}?"),
    ),
    "felt": (
        ("How did it feel?", "How was it?", "And are you happy with it?"),
        ("I felt {it}.", "I was {it}.", "{It}, I must say."),
        FEELINGS,
        ("How did {who} feel when {who} {told}?", "What did {who} think after {who} {told}?"),
    ),
    "plan": (
        ("And what comes next?", "Will you go on with it?", "Any plans?"),
        ("I want to {it}.", "Next I'm going to {it}.", "I might {it}."),
        PLANS,
        ("What does {who} plan after {who} {told}?", "What will {who} do next about {topic}?"),
    ),
}
EPOCH = date(1970, 1, 1)
# Of what kind a question is: what one turn says, when, or what several say.
SINGLE, WHEN, SEVERAL = 4, 2, 1
SESSIONS, SUBJECTS = (12, 22), (3, 5)
# What is talked about without being about anything.
ASIDES = _listed("""
I think {time} I saw your {noun}, was that you?; We should look for a {adjective} {noun} together
{time}, or whenever you like, I have nothing else to do anyway.; {Time} I was so tired that I
forgot my {noun} on the bus, and then somebody found it and brought it back to me.; Some people
have a {adjective} {noun} and talk of nothing else, I really don't know why that is.;
By the way, the {noun} next door is {adjective} again.; I still have to fix the {noun} before the
weekend.; My {noun} arrived, and it is {adjective}.; Have you seen the {noun} they put up?; Anyway,
how is your {noun}?; It rained on my {noun} all day.; I can't find a {adjective} {noun} anywhere.
""")
NOUNS = _listed("""
fence; window; chair; sofa; umbrella; jacket; phone; charger; fridge; lamp; bicycle; kettle;
ladder; curtain; balcony; doorbell; calendar; printer; blanket; mirror; carpet; drawer; radio;
heater; stairs; roof; bench; elevator; parcel; newspaper; puddle; pigeon; scarf; pillow; socket;
bucket; hammer; mailbox
""")


@dataclass(slots=True)
class Draft:
    """A conversation that is being made up."""

    chance: random.Random
    speakers: tuple[str, str]
    turns: list[Turn] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    told: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    known: set[tuple[str, str]] = field(default_factory=set)
    session: int = 0
    day: int = 0

    def say(self, speaker: str, text: str) -> str:
        """Add a turn and return its id."""
        (other,) = set(self.speakers) - {speaker}
        said = text.replace("{other}", other)
        turn_id = f"T{len(self.turns)}"
        self.turns.append(
            Turn(
                turn_id=turn_id,
                speaker=speaker,
                session=str(self.session),
                text=said,
                tokens=tokens_of(f"{speaker}: {said}"),
                at_ms=self.day * MS_PER_DAY,
            )
        )
        return turn_id

    def ask(self, text: str, kind: int, evidence: set[str]) -> None:
        """Add a question whose answer stands in the turns of `evidence`, at times with a date."""
        if kind == SINGLE and self.chance.random() < RARELY:
            text = f"{text.removesuffix('?')} {self._date()}?"
        self.questions.append(Question(text=text, kind=kind, evidence=frozenset(evidence)))

    def _date(self) -> str:
        """Return how one says, closely or roughly, when this session was."""
        said = date.fromordinal(self.day + EPOCH.toordinal())
        forms = ("on %d %B, %Y", "on %B %d, %Y", "in %B %Y", "in %B", "on %Y-%m-%d")
        return said.strftime(self.chance.choice(forms))


def dialogues(total: int, *, seed: int) -> Iterator[Conversation]:
    """Yield made-up conversations with questions, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - made-up talk is no secret
    for number in range(total):
        first, second = chance.sample(NAMES, 2)
        draft = Draft(chance=chance, speakers=(first, second))
        draft.day = chance.randint(15_000, 21_000)
        for session in range(chance.randint(*SESSIONS)):
            draft.session = session
            draft.day += chance.randint(2, 20)
            _session(draft)
        _ask_over_all(draft)
        yield Conversation(
            name=f"made up {number}", turns=tuple(draft.turns), questions=tuple(draft.questions)
        )


def _session(draft: Draft) -> None:
    chance = draft.chance
    first, second = chance.sample(draft.speakers, 2)
    draft.say(first, chance.choice(GREETINGS))
    for subject in range(chance.randint(*SUBJECTS)):
        teller, hearer = chance.sample(draft.speakers, 2) if subject else (second, first)
        _subject(draft, chance.choice(TOPICS), teller, hearer)
    draft.say(first, chance.choice(CLOSINGS))
    if chance.random() < OFTEN:
        draft.say(second, chance.choice(CLOSINGS))


def _subject(draft: Draft, topic: Topic, teller: str, hearer: str) -> None:
    """Let one tell the other something, be asked back, and both go on about it for a while."""
    chance = draft.chance
    told, asked = chance.choice(topic.facts)
    if (teller, told) in draft.known:
        return
    draft.known.add((teller, told))
    if chance.random() < OFTEN:
        draft.say(hearer, _comment(draft, topic))
    time = chance.choice(TIMES) if chance.random() < OFTEN else ""
    if chance.random() < RARELY:
        turn = draft.say(
            hearer, f"I still think of how you {_second(told)}{' ' + time if time else ''}."
        )
        draft.say(teller, chance.choice(REACTIONS))
    else:
        turn = draft.say(teller, _statement(draft, topic, told, time))
    draft.told.setdefault((teller, topic.name), set()).add(turn)
    words = _wordings(draft, topic, teller, (told, asked))
    if time:
        draft.ask(chance.choice(SLOTS["when"][3]).format(**words), WHEN, {turn})
    if chance.random() < OFTEN:
        draft.ask(chance.choice(WHAT).format(**words), SINGLE, {turn})
    slots = sorted(SLOTS.keys() - ({"when"} if time else set()))
    for slot in chance.sample(slots, chance.choice((0, 1, 1, 2))):
        _asked_back(draft, slot, words, teller=teller, hearer=hearer)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        longer = " " + _aside(draft) if chance.random() < SELDOM else ""
        draft.say(chance.choice(draft.speakers), _comment(draft, topic) + longer)
    if chance.random() < SELDOM:
        _show(draft, topic, teller)
    if chance.random() < OFTEN:
        draft.say(chance.choice(draft.speakers), _aside(draft))


OFTEN, SELDOM, RARELY = 0.5, 0.25, 0.15
WHAT = (
    "What did {who} {asked}?",
    "What happened when {who} {told}?",
    "Which thing did {who} {asked}?",
    "What did {who} say about {asked}?",
)


def _wordings(draft: Draft, topic: Topic, teller: str, fact: tuple[str, str]) -> dict[str, str]:
    """Return what a question may say of a fact: some of the words it was told in, and others."""
    told, asked = fact
    kept = [word for word in _third(told).split() if draft.chance.random() < KEPT]
    hint = draft.chance.choice((f" ({topic.name})", "", ""))
    who = teller if draft.chance.random() > RARELY else "the person"
    return {
        "who": who,
        "asked": f"{asked}, {' '.join(kept[-3:])}{hint}",
        "told": " ".join(kept) + hint,
        "topic": topic.name,
    }


KEPT = 0.7


def _asked_back(
    draft: Draft, slot: str, words: dict[str, str], *, teller: str, hearer: str
) -> None:
    chance = draft.chance
    asking, telling, values, questions = SLOTS[slot]
    value = chance.choice(values)
    reaction = chance.choice(REACTIONS) + " " if chance.random() < OFTEN else ""
    about = f" The {words['topic']}, I mean." if chance.random() < SELDOM else ""
    draft.say(hearer, reaction + chance.choice(asking) + about)
    told = chance.choice(telling).format(it=value, It=value[0].upper() + value[1:])
    if chance.random() < OFTEN:
        told += f" {words['topic'].title()} is {chance.choice(ADJECTIVES)} like that."
    turn = draft.say(teller, told)
    if chance.random() < OFTEN:
        kind = WHEN if slot == "when" else SINGLE
        draft.ask(chance.choice(questions).format(**words), kind, {turn})


def _statement(draft: Draft, topic: Topic, told: str, time: str) -> str:
    chance = draft.chance
    opening = chance.choice(("", "", "Guess what! ", "Thanks! ", "You know, ", "Busy days here. "))
    text = f"{opening}I {told}{' ' + time if time else ''}."
    if chance.random() < OFTEN:
        text += f" The {chance.choice(topic.words)} was {chance.choice(ADJECTIVES)}."
    if chance.random() < SELDOM:
        text += " " + _aside(draft)
    return text


ADJECTIVES = _listed("""
great; terrible; lovely; odd; cheap; endless; perfect; loud; tiny; beautiful; simple; wild; quiet;
expensive
""")


def _aside(draft: Draft) -> str:
    chance = draft.chance
    time = chance.choice(TIMES)
    return chance.choice(ASIDES).format(
        noun=chance.choice(NOUNS),
        adjective=chance.choice(ADJECTIVES),
        time=time,
        Time=time[0].upper() + time[1:],
    )


def _show(draft: Draft, topic: Topic, teller: str) -> None:
    chance = draft.chance
    thing = chance.choice(topic.shown)
    turn = draft.say(
        teller,
        chance.choice(("Look at this!", "Here it is:", "I took this one.")) + f" [image: {thing}]",
    )
    if chance.random() < SELDOM:
        asked = chance.choice(
            (
                "What did {who} show a picture of, about {topic}?",
                "What is in the photo that {who} shared about {topic}?",
            )
        )
        draft.ask(asked.format(who=teller, topic=topic.name), SINGLE, {turn})


def _comment(draft: Draft, topic: Topic) -> str:
    word, second = draft.chance.sample(topic.words, 2)
    comment = draft.chance.choice(COMMENTS)
    return comment.format(word=word, second=second, Word=word[0].upper() + word[1:])


def _third(told: str) -> str:
    """Return what somebody told of themselves as others say it."""
    swaps = {"my": "their", "our": "their", "me": "them", "we": "they", "I": "they"}
    return " ".join(swaps.get(word, word) for word in told.split())


def _second(told: str) -> str:
    """Return what somebody told of themselves as it is said to them."""
    swaps = {"my": "your", "our": "your", "me": "you", "we": "you", "I": "you"}
    return " ".join(swaps.get(word, word) for word in told.split())


def _ask_over_all(draft: Draft) -> None:
    """Ask for all that somebody told of a subject, over all sessions."""
    for (teller, topic), turns in draft.told.items():
        if 2 <= len(turns) <= 4:  # noqa: PLR2004 - with more, ten places do not hold them
            text = draft.chance.choice(
                (
                    "What has {who} done in {topic}?",
                    "What do we know of {who} and {topic}?",
                    "Which experiences with {topic} has {who} had?",
                )
            )
            draft.ask(text.format(who=teller, topic=topic), SEVERAL, turns)
