"""Who is told what happens, as `flyball doctor` finds it."""

import socket

import pytest

from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.webhooks import webhooks_of
from runtime.errors import ConfigError
from runtime.told_elsewhere import doubts_about_collector, told_elsewhere

HOOK = """
[[webhook]]
name = "ops"
url = "https://hooks.example.org/services/T0/hidden-in-the-path"
secret_from = "HOOK_SECRET"
kinds = ["approval"]
"""


def configured(text: str) -> Config:
    return parse_config(text, source="a test")


def sent_to(port: int) -> Config:
    return configured(f'[telemetry]\notlp_endpoint = "http://127.0.0.1:{port}"\nmetrics = false\n')


def test_a_webhook_without_its_secret_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)

    with pytest.raises(ConfigError, match=r"webhook\.secret_from: .* HOOK_SECRET is not set"):
        webhooks_of(configured(HOOK).webhook)


def test_of_an_address_only_the_host_is_shown() -> None:
    told = dict(told_elsewhere(configured(HOOK)))

    assert told == {"webhook ops": "https://hooks.example.org is sent approval (not asked)"}


def test_a_collector_that_is_away_is_a_doubt_and_no_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        well = list(doubts_about_collector(sent_to(there.getsockname()[1])))
        port = held.getsockname()[1]
        [away] = doubts_about_collector(sent_to(port))

    assert well == []
    assert (away.what, away.is_bad) == ("telemetry", False)
    assert "calls go on" in away.told
    assert dict(told_elsewhere(sent_to(port))) == {
        "telemetry": f"http://127.0.0.1:{port} is sent spans"
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('otlp_endpoint = "collector:4318"', "expected an http:// or https:// address"),
        ('otlp_endpoint = "http://c:4318/v1/traces"', "leave the path out"),
        ('headers_from = { a = "B" }', "name one, or remove it"),
        ("sampled = 2", "less than or equal to 1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_do(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        configured(f"[telemetry]\n{text}\n")


def test_two_webhooks_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="webhook ops appears twice"):
        configured(HOOK + HOOK)


def test_a_single_table_is_a_webhook_for_what_budgets_tell() -> None:
    [webhook] = configured('[webhook]\nurl = "http://127.0.0.1:1/x"\nsecret_from = "A"\n').webhook

    assert (webhook.name, [*webhook.kinds]) == ("webhook", ["threshold", "would_deny"])
