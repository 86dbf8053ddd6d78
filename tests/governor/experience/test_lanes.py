"""The lanes over random histories: whose words end up where, by a book that follows each word."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.promotion import (
    Adopted,
    Asker,
    Stands,
    Vote,
    Whereto,
    promote,
    withdraw,
)
from governor.experience.rendering import Role, role_of
from governor.experience.signing import claim_of, holds, sign
from governor.experience.trust import Attempt, Corrected, Way, decide
from governor.ids import PrincipalId
from tests.governor.experience.makers import OTHERS, OWN, Said, experience

KEY = b"a tenant's key"
OPERATOR, USER, STRANGER = "an operator", "a user", "a stranger"
AGENTS = ("ada", "bob", "cid", "dan", "eve")
KINDS = st.sampled_from(ExperienceKind)
PICK = st.integers(0, 10**6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An experience, and in truth whose words are in it; nobody but the test knows that.

    What an operator has read and made its own counts as the operator's words.
    """

    experience: Experience
    authors: frozenset[str]


class Histories(RuleBasedStateMachine):
    """Sessions of agents that read, write, correct, vote and import; an operator and a user."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Kept] = []
        # What each session knows, and whether the house has noted that strangers wrote of it.
        self.known = {agent: frozenset({agent}) for agent in AGENTS}
        self.marked = dict.fromkeys(AGENTS, False)

    def keep(
        self, attempt: Attempt, authors: frozenset[str], sources: list[Kept], old: Kept | None
    ) -> None:
        placed = decide(attempt)
        said = Said(
            index=f"exp_{len(self.kept)}",
            lane=placed.lane,
            standing=placed.standing,
            writer=attempt.writer,
            namespace=OWN if len(self.kept) % 2 else OTHERS,
            supersedes=None if old is None else old.experience.experience_id,
            derived_from=tuple(source.experience.experience_id for source in sources),
        )
        written = experience(said)
        signed = replace(written, signature=sign(claim_of(written), key=KEY))
        if attempt.way is not Way.ADOPTED:
            authors = authors.union(*(source.authors for source in sources))
        self.kept.append(Kept(experience=signed, authors=authors))
        if placed.supersedes and old is not None:
            self.stand(old, Standing.SUPERSEDED)

    def stand(self, kept: Kept, standing: Standing) -> None:
        at = self.kept.index(kept)
        self.kept[at] = replace(kept, experience=replace(kept.experience, standing=standing))

    def pick(self, number: int) -> Kept:
        return self.kept[number % len(self.kept)]

    @initialize()
    def begin(self) -> None:
        for way, author in ((Way.OPERATOR, OPERATOR), (Way.USER, USER)):
            attempt = Attempt(
                way=way, writer=PrincipalId(author), kind=ExperienceKind.LESSON, saw_untrusted=False
            )
            self.keep(attempt, frozenset({author}), [], None)

    @rule(agent=st.sampled_from(AGENTS), at=PICK)
    def read(self, agent: str, at: int) -> None:
        got = self.pick(at)
        self.known[agent] |= got.authors
        self.marked[agent] |= got.experience.lane is TrustLane.WEB

    @rule(agent=st.sampled_from(AGENTS))
    def browse(self, agent: str) -> None:
        self.known[agent] |= {STRANGER}
        self.marked[agent] = True

    @rule(
        agent=st.sampled_from(AGENTS),
        way=st.sampled_from((Way.AGENT, Way.HOUSE, Way.RESULT, Way.IMPORTED)),
        kind=KINDS,
        claimed=st.one_of(st.none(), st.sampled_from(TrustLane)),
        derived=st.lists(PICK, max_size=2),
        corrects=st.one_of(st.none(), PICK),
        unknown=st.booleans(),
    )
    def write(
        self,
        *,
        agent: str,
        way: Way,
        kind: ExperienceKind,
        claimed: TrustLane | None,
        derived: list[int],
        corrects: int | None,
        unknown: bool,
    ) -> None:
        sources = [self.pick(at) for at in derived]
        lanes: tuple[TrustLane | None, ...] = tuple(one.experience.lane for one in sources)
        old = None if corrects is None else self.pick(corrects)
        attempt = Attempt(
            way=way,
            writer=PrincipalId(agent),
            kind=kind,
            saw_untrusted=self.marked[agent],
            sources=(*lanes, None) if unknown else lanes,
            corrects=None if old is None else corrected(old),
            claimed=claimed,
            is_signed=True,
        )
        self.keep(attempt, self.known[agent], sources, old)

    @rule(way=st.sampled_from((Way.OPERATOR, Way.USER)), kind=KINDS, derived=st.lists(PICK))
    def say(self, way: Way, kind: ExperienceKind, derived: list[int]) -> None:
        author = OPERATOR if way is Way.OPERATOR else USER
        sources = [self.pick(at) for at in derived[:3]]
        attempt = Attempt(
            way=way,
            writer=PrincipalId(author),
            kind=kind,
            saw_untrusted=True,
            sources=tuple(one.experience.lane for one in sources),
        )
        self.keep(attempt, frozenset({author}), sources, None)

    @rule(
        who=st.sampled_from((OPERATOR, *AGENTS)),
        whereto=st.sampled_from(Whereto),
        at=PICK,
        good=st.sets(st.sampled_from(AGENTS)),
    )
    def promote(self, who: str, whereto: Whereto, at: int, good: set[str]) -> None:
        kept = self.pick(at)
        votes = tuple(
            Vote(reader=PrincipalId(name), outcome=1.0, saw_untrusted=self.marked[name])
            for name in good
        )
        asker = Asker(principal=PrincipalId(who), is_operator=who == OPERATOR)
        match promote(kept.experience, whereto, asker=asker, votes=votes):
            case Adopted():
                attempt = Attempt(
                    way=Way.ADOPTED,
                    writer=asker.principal,
                    kind=kept.experience.kind,
                    saw_untrusted=False,
                    sources=(kept.experience.lane,),
                )
                self.keep(attempt, frozenset({OPERATOR}), [kept], None)
            case Stands(standing=standing):
                self.stand(kept, standing)

    @rule(who=st.sampled_from((OPERATOR, *AGENTS)), at=PICK)
    def revoke(self, who: str, at: int) -> None:
        kept = self.pick(at)
        asker = Asker(principal=PrincipalId(who), is_operator=who == OPERATOR)
        got = withdraw(kept.experience, Standing.REVOKED, asker=asker)
        if isinstance(got, Stands):
            assert who in (OPERATOR, kept.experience.provenance.writer)
            self.stand(kept, got.standing)

    @precondition(lambda self: len(self.kept) < 60)
    @rule(at=PICK, forged=st.one_of(st.none(), st.sampled_from(TrustLane)))
    def restore(self, at: int, forged: TrustLane | None) -> None:
        kept = self.pick(at)
        line = kept.experience if forged is None else replace(kept.experience, lane=forged)
        attempt = Attempt(
            way=Way.RESTORED,
            writer=line.provenance.writer,
            kind=line.kind,
            saw_untrusted=False,
            claimed=line.lane,
            is_signed=holds(claim_of(line), line.signature, key=KEY),
            stood=line.standing,
        )
        self.keep(attempt, kept.authors, [], None)

    @invariant()
    def nothing_but_an_operators_and_a_users_words_instruct(self) -> None:
        for kept in self.kept:
            if kept.experience.lane.instructs or is_instruction(kept):
                assert kept.authors <= {OPERATOR, USER}

    @invariant()
    def what_strangers_wrote_stays_a_strangers(self) -> None:
        for kept in self.kept:
            if STRANGER in kept.authors:
                assert kept.experience.lane is TrustLane.WEB

    @invariant()
    def what_the_operator_and_the_user_said_first_still_stands(self) -> None:
        for kept in self.kept[:2]:
            assert kept.experience.standing is not Standing.SUPERSEDED


def corrected(old: Kept) -> Corrected:
    return Corrected(lane=old.experience.lane, writer=old.experience.provenance.writer)


def is_instruction(kept: Kept) -> bool:
    return role_of(kept.experience, own={OWN}) is Role.INSTRUCTION


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestHistories = pytest.mark.requirement("memory.only-the-house-instructs")(Histories.TestCase)
