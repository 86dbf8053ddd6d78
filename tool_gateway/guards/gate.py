"""The reasoning gate: an agent that is not known, or calls too often, solves a puzzle first.

A challenge is stateless: its puzzle follows from its name and a key that never leaves the state
directory. What is remembered is only which challenges were answered, until they would have run
out anyway. Those from before this process began are refused, or a restart would let one pass
twice.
"""

import base64
import binascii
import hmac
import struct
from collections import OrderedDict
from hashlib import sha256

from governor.denial import Challenge, DenialReason, Denied, Remedy, RemedyAction
from governor.gate import GateTerms, When
from governor.ids import PrincipalId
from governor.puzzle import HOPS_MAX, Puzzle, puzzle_of
from tool_gateway import telemetry
from tool_gateway.answering import ANSWER
from tool_gateway.builtin import BUILTIN
from tool_gateway.denials import ledger_unavailable
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.job import Job
from tool_gateway.ports import Clock

AGENTS_MAX = 10_000
ANSWERED_MAX = 100_000
_NONCE_BYTES = 12
_SIGNATURE_BYTES = 16
# Name, when it was made and when it runs out (milliseconds), steps.
_BODY = struct.Struct(f">{_NONCE_BYTES}sQQB")


class ReasoningGate:
    """Stops calls at the gates of their rules, and lets through who has answered."""

    def __init__(self, *, key: bytes, clock: Clock) -> None:
        """Know nobody yet."""
        self._key = key
        self._clock = clock
        self._began_at_ms = clock.now_ms()
        # By agent: when it solved a puzzle, and how far each of its rates is used up.
        self._solved_at_ms: OrderedDict[PrincipalId, int] = OrderedDict()
        self._arrivals: OrderedDict[tuple[PrincipalId, str], int] = OrderedDict()
        self._answered: OrderedDict[bytes, int] = OrderedDict()

    async def checked(self, job: Job) -> Denied | None:
        """Return the challenge that stands before a call, None if it may pass.

        Raises:
            LedgerUnavailableError: nobody can say whether it may.
        """
        terms = job.rule.gate
        if terms is None or job.backend.name == BUILTIN:
            return None
        return await self.ask(terms, job.call.chain.agent, rule=job.rule.name)

    async def ask(self, terms: GateTerms, agent: PrincipalId, *, rule: str) -> Denied | None:
        """Return the challenge for an agent that comes to the gate of a rule, None to let it pass.

        Raises:
            LedgerUnavailableError: as above.
        """
        return self.asked(terms, agent, rule=rule)

    async def take(self, agent: PrincipalId, challenge: str, answer: str) -> str | None:
        """Take an answer; return why it is not taken, None if the agent may pass now.

        Raises:
            LedgerUnavailableError: nobody can say whether the challenge was used before.
        """
        return self.taken(agent, challenge, answer)

    def asked(self, terms: GateTerms, agent: PrincipalId, *, rule: str) -> Denied | None:
        """Return what `ask` does, of what this gate remembers."""
        now_ms = self._clock.now_ms()
        if self._may_pass(terms, agent, rule, now_ms):
            return None
        telemetry.count_gate("asked")
        return self._challenge(terms, agent, now_ms)

    def taken(self, agent: PrincipalId, challenge: str, answer: str) -> str | None:
        """Return what `take` does, of what this gate remembers.

        A challenge is used up by its first answer, right or wrong.
        """
        now_ms = self._clock.now_ms()
        read = self._read(challenge, agent)
        if read is None:
            telemetry.count_gate("forged")
            return "this is no challenge that was made for you here"
        nonce, made_at_ms, expires_at_ms, hops = read
        if now_ms >= expires_at_ms or made_at_ms < self._began_at_ms:
            telemetry.count_gate("late")
            return "the challenge has run out; call the tool again for another"
        self._forget(now_ms)
        if nonce in self._answered:
            telemetry.count_gate("reused")
            return "the challenge was answered before; call the tool again for another"
        if len(self._answered) >= ANSWERED_MAX:
            telemetry.count_gate("full")
            return "too many challenges were answered just now; try again in a while"
        self._answered[nonce] = expires_at_ms
        if not self._puzzle(nonce, hops).is_solved_by(answer):
            telemetry.count_gate("wrong")
            return "the answer is wrong; call the tool again for another challenge"
        telemetry.count_gate("solved")
        self._admit(agent, now_ms)
        return None

    def _may_pass(self, terms: GateTerms, agent: PrincipalId, rule: str, now_ms: int) -> bool:
        if terms.when is When.UNKNOWN:
            solved_at_ms = self._solved_at_ms.get(agent)
            return solved_at_ms is not None and now_ms < solved_at_ms + terms.pass_ms
        rate, key = terms.rate, (agent, rule)
        arrival = self._arrivals.get(key, 0)
        if rate.level(arrival, now_ms) < 1:
            return False
        self._arrivals[key] = rate.after(arrival, 1, now_ms)
        self._arrivals.move_to_end(key)
        while len(self._arrivals) > AGENTS_MAX:
            self._arrivals.popitem(last=False)
        return True

    def _admit(self, agent: PrincipalId, now_ms: int) -> None:
        self._solved_at_ms[agent] = now_ms
        self._solved_at_ms.move_to_end(agent)
        while len(self._solved_at_ms) > AGENTS_MAX:
            self._solved_at_ms.popitem(last=False)
        for key in [key for key in self._arrivals if key[0] == agent]:
            del self._arrivals[key]

    def _challenge(self, terms: GateTerms, agent: PrincipalId, now_ms: int) -> Denied:
        nonce = self._hash(b"nonce", self._clock.fresh("gate").encode())[:_NONCE_BYTES]
        expires_at_ms = now_ms + terms.ttl_ms
        body = _BODY.pack(nonce, now_ms, expires_at_ms, terms.hops)
        token = base64.urlsafe_b64encode(body + self._signature(body, agent)).decode()
        challenge = Challenge(
            token=token, puzzle=self._puzzle(nonce, terms.hops).text, expires_at_ms=expires_at_ms
        )
        return Denied(
            reason=DenialReason.GATE_REQUIRED,
            challenge=challenge,
            remedy=Remedy(
                action=RemedyAction.SOLVE_CHALLENGE,
                text=(
                    f"Solve this puzzle first and call {ANSWER} with the challenge {token} and "
                    f"your answer, within {terms.ttl_ms // 1000} s; then call again.\n"
                    f"{challenge.puzzle}"
                ),
            ),
        )

    def _read(self, challenge: str, agent: PrincipalId) -> tuple[bytes, int, int, int] | None:
        """Return what a challenge says, None if it is not ours or not this agent's."""
        try:
            whole = base64.b64decode(challenge.encode(), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            return None
        body, signature = whole[: _BODY.size], whole[_BODY.size :]
        if len(body) != _BODY.size:
            return None
        if not hmac.compare_digest(signature, self._signature(body, agent)):
            return None
        nonce, made_at_ms, expires_at_ms, hops = _BODY.unpack(body)
        return (nonce, made_at_ms, expires_at_ms, hops) if 1 <= hops <= HOPS_MAX else None

    def _puzzle(self, nonce: bytes, hops: int) -> Puzzle:
        return puzzle_of(self._hash(b"seed", nonce), hops=hops)

    def _signature(self, body: bytes, agent: PrincipalId) -> bytes:
        signed = agent.encode(errors="surrogatepass")
        return self._hash(b"signature", body + signed)[:_SIGNATURE_BYTES]

    def _hash(self, purpose: bytes, message: bytes) -> bytes:
        return hmac.digest(self._key, purpose + b"\x00" + message, sha256)

    def _forget(self, now_ms: int) -> None:
        """Forget answered challenges that have run out; the oldest come first, nearly."""
        while self._answered:
            nonce, expires_at_ms = next(iter(self._answered.items()))
            if expires_at_ms > now_ms:
                return
            del self._answered[nonce]


async def gated(gate: ReasoningGate, job: Job) -> Denied | None:
    """Return the challenge before a call; where nobody can say who may pass, nobody does."""
    try:
        return await gate.checked(job)
    except LedgerUnavailableError:
        telemetry.count_failure("gate")
        return ledger_unavailable()
