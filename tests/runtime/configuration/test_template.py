"""What `flyball init` writes works as it stands, and so does every example in it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from runtime.cli.init import template
from runtime.configuration.load import parse_config
from runtime.configuration.model import Config, LoopTable, RuleTerms
from runtime.configuration.telemetry import export_terms_of
from runtime.configuration.translate import (
    budgets_of,
    policy_of,
    providers_of,
    tier_rules_of,
    tiers_of,
)
from runtime.configuration.upstreams import upstreams_of
from runtime.configuration.webhooks import webhooks_of
from runtime.token_files import TENANT

# A commented line that is TOML once its "# " is gone, as against a sentence.
EXAMPLE = re.compile(r"^# (?=\[|[a-z_]+ = )")


def uncommented(text: str) -> str:
    """Return `text` with every example in force, each in the table that it stands in."""
    return "\n".join(EXAMPLE.sub("", line) for line in text.splitlines())


def test_the_template_is_valid_as_it_stands() -> None:
    config = parse_config(template(), source="the template")

    assert [upstream.name for upstream in config.upstream] == ["time", "git"]
    assert [budget.id for budget in config.budget] == ["each-session"]


def test_the_template_states_the_defaults() -> None:
    stated, defaults = parse_config(template(), source="the template"), Config()

    assert stated.listen == defaults.listen
    assert stated.auth == defaults.auth
    assert stated.session == defaults.session
    assert stated.store == defaults.store
    assert stated.records == defaults.records
    assert stated.local == defaults.local
    assert stated.guidance == defaults.guidance
    assert stated.contention == defaults.contention
    assert stated.tools == defaults.tools
    assert stated.router == defaults.router
    assert stated.memory == defaults.memory
    assert stated.telemetry == defaults.telemetry
    assert stated.default.limits == defaults.default.limits
    assert stated.default.model_copy(update={"estimate": defaults.default.estimate}) == RuleTerms()


def test_the_template_allows_no_local_commands() -> None:
    policy = policy_of(parse_config(template(), source="the template"))

    rules = [(rule.match.tool, rule.allow) for rule in policy.rules]
    assert rules == [("shell_run", False), ("python_run", False)]


def test_every_example_is_valid_once_uncommented() -> None:
    # The template names files and variables that the example's machine would have.
    text = uncommented(template())

    config = parse_config(text, source="the template, uncommented")

    assert [upstream.name for upstream in config.upstream] == [
        "time",
        "git",
        "issues",
        "tickets",
        "notes",
    ]
    assert [rule.name for rule in config.rule] == [
        "shell",
        "ask-first",
        "search",
        "small",
        "strangers-think",
        "agents",
    ]
    assert [budget.id for budget in config.budget] == [
        "each-session",
        "each-agent-daily",
        "each-agent-monthly",
        "each-agent-last-hour",
        "searches-per-minute",
        "at-once",
    ]
    assert config.tools.list_tokens_max == 8000
    assert [rule.agent for rule in config.tools.list_rule] == ["small-*"]
    assert [provider.name for provider in config.provider] == ["openai"]
    assert [tier.name for tier in config.tier] == ["low", "high"]
    assert [rule.tier for rule in config.tier_rule] == ["high"]
    assert config.listen.trusted_proxy
    assert [entry.upstream for entry in config.commons] == ["issues"]


def test_every_example_can_be_put_to_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.toml").touch()
    monkeypatch.setenv("ISSUES_AUTHORIZATION", "Bearer made-up")
    monkeypatch.setenv("TICKETS_SECRET", "made-up")
    monkeypatch.setenv("OPENAI_API_KEY", "made-up")
    monkeypatch.setenv("WEBHOOK_SECRET", "made-up")
    monkeypatch.setenv("OTLP_AUTHORIZATION", "made-up")
    config = parse_config(uncommented(template()), source="the template, uncommented")

    assert policy_of(config).rule_for(tool="shell_run", tenant=TENANT, agent="agent").allow
    assert len(upstreams_of(config)) == 5
    assert len(budgets_of(config, tenant=TENANT)) == 6
    assert len(providers_of(config)) == 1
    [webhook] = webhooks_of(config.webhook)
    assert (webhook.name, webhook.wants("denial"), webhook.wants("would_deny")) == (
        "ops",
        True,
        False,
    )
    terms = export_terms_of(config.telemetry) or pytest.fail("no collector")
    assert terms.headers["authorization"].get_secret_value() == "made-up"
    assert [tier.price is not None for tier in tiers_of(config)] == [True, True]
    assert len(tier_rules_of(config)) == 1


def test_no_line_that_reads_like_toml_stays_commented() -> None:
    left = [
        line
        for line in uncommented(template()).splitlines()
        if line.startswith("#") and re.search(r"\w = |^# *\[\[?\w+\]\]? *(#|$)", line)
    ]

    assert left == []


def test_examples_that_say_a_default_say_the_true_one() -> None:
    raw: dict[str, Any] = tomllib.loads(uncommented(template()))

    assert raw["listen"]["body_bytes_max"] == Config().listen.body_bytes_max
    assert raw["default"]["archive_above_bytes"] == RuleTerms().archive_above_bytes
    assert raw["default"]["cost_microusd"] == RuleTerms().cost_microusd
    limits = RuleTerms().limits
    assert raw["rule"][0]["limits"] == limits.model_dump(
        include={"memory_mib", "pids", "cpus", "wall_ms"}
    )
    contention, said = Config().contention.model_dump(), raw["contention"]
    for key in ("enabled", "wait_ms_max", "queue_max", "queue_max_per_tenant", "concurrency"):
        assert said[key] == contention[key]
    assert said["queue_max_per_session"] == contention["queue_max_per_session"]
    shed = Config().contention.shed.model_dump(exclude_none=True)
    assert said["shed"] == {"low": shed["low"], "normal": shed["normal"]}
    for key in ("approval_wait_s", "approval_ttl_s"):
        assert raw["rule"][1][key] == getattr(RuleTerms(), key)
    assert raw["rule"][0]["isolation"] == RuleTerms().isolation
    assert (raw["default"]["loops"], raw["default"]["tracker"]) == ("remind", "off")
    assert raw["guidance"]["chat_tracker"] == Config().guidance.chat_tracker
    assert raw["rule"][2]["loops"] == {**LoopTable().model_dump(), "repeatable": True}
