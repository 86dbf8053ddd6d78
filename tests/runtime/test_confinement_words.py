"""What a model is told of what its command tried against its rule."""

import pytest

from governor.confines import Confines, Devices, destination_of
from runtime.confinement_words import refusal_words

TOTAL = "2 attempts were refused by the rule"


@pytest.mark.requirement("network.only-what-is-listed")
def test_what_was_refused_is_told_with_what_is_allowed_and_whom_to_ask() -> None:
    confines = Confines(network=(destination_of("example.org:443"),))

    said = refusal_words((TOTAL, "curl tried to connect to 192.0.2.1:80"), confines)

    assert said == (
        "2 attempts were refused by the rule: curl tried to connect to 192.0.2.1:80. "
        "It may reach example.org:443; an administrator can change that in the rule "
        "(network, files, devices)"
    )


def test_a_long_list_is_told_in_part() -> None:
    confines = Confines(network=tuple(destination_of(f"h{n}.example:1") for n in range(10)))

    assert "h7.example:1 and 2 more;" in refusal_words((TOTAL,), confines)


def test_a_rule_without_any_network_is_told_as_such() -> None:
    confines = Confines(network=(), devices=Devices.STANDARD, hidden=("/srv/secrets",))

    assert (
        "may reach nothing of the network and open the standard devices alone and not have all "
        "of /srv/secrets;"
    ) in refusal_words((TOTAL,), confines)


def test_nothing_is_told_where_nothing_was_refused() -> None:
    assert refusal_words((), Confines(network=())) == ""
