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
        "It may reach example.org:443. An administrator can change that in the rule "
        "(network, files, devices)"
    )


def test_a_long_list_is_told_in_part() -> None:
    confines = Confines(network=tuple(destination_of(f"h{n}.example:1") for n in range(10)))

    assert "h7.example:1 and 2 more." in refusal_words((TOTAL,), confines)


def test_each_thing_that_a_rule_withholds_is_a_sentence_of_its_own() -> None:
    confines = Confines(
        network=(),
        devices=Devices.STANDARD,
        hidden=("/srv",),
        read_only=("/etc/apt",),
        no_exec_from=("/tmp", "/var/tmp"),
    )

    assert (
        ". It may reach nothing of the network. It may open the standard devices alone. "
        "It may not read or change /srv. It may read and not change /etc/apt. "
        "It may start no program in /tmp, /var/tmp. An administrator can change that"
    ) in refusal_words((TOTAL,), confines)


def test_a_single_address_is_told_without_the_size_of_its_network() -> None:
    listed = ("127.0.0.1:8791", "10.0.0.0/8:53", "[2001:db8::1]:443", "1.1.1.1:*")
    confines = Confines(network=tuple(map(destination_of, listed)))

    assert f"It may reach {', '.join(listed)}." in refusal_words((TOTAL,), confines)


def test_nothing_is_told_where_nothing_was_refused() -> None:
    assert refusal_words((), Confines(network=())) == ""
