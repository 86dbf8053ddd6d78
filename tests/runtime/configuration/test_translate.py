"""What the rest of the house gets from the file."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Amounts, Unit
from governor.ids import PrincipalId, TenantId, ToolName
from governor.limits import ExecutionLimits, Isolation
from governor.policy import ApprovalTerms, ToolRule
from governor.scope import ScopeKind
from governor.tiers import ModelTier
from governor.window import Fixed, Lifetime
from runtime.configuration.load import config_version, parse_config
from runtime.configuration.model import Config
from runtime.configuration.translate import (
    budgets_of,
    policy_of,
    providers_of,
    tier_rules_of,
    tiers_of,
)
from runtime.configuration.upstreams import upstreams_of
from runtime.errors import ConfigError
from runtime.settings import scripts_directory
from tool_gateway.upstreams.spec import HttpSpec, StdioSpec

MIB = 1024 * 1024
SECRET = "made-up-0123456789"
TIER = """
[[provider]]
name = "lab"
base_url = "http://lab.test/v1"

[[tier]]
name = "low"
provider = "lab"
model = "small"
"""


def read(text: str) -> Config:
    return parse_config(text, source="flyball.toml")


def rule_for(config: Config, tool: str, *, agent: str = "ada", tenant: str = "acme") -> ToolRule:
    return policy_of(config).rule_for(
        tool=ToolName(tool), tenant=TenantId(tenant), agent=PrincipalId(agent)
    )


def test_the_first_rule_that_covers_a_call_governs_it() -> None:
    config = read("""
[[rule]]
name = "adas-git"
tool = "git__*"
agent = "ada"

[[rule]]
name = "git"
tool = "git__*"

[[rule]]
name = "acme"
tenant = "acme"
""")

    assert rule_for(config, "git__log").name == "adas-git"
    assert rule_for(config, "git__log", agent="bob").name == "git"
    assert rule_for(config, "time__now").name == "acme"
    assert rule_for(config, "time__now", tenant="other").name == "default"


def test_a_closed_default_turns_the_list_around() -> None:
    config = read('[[rule]]\nname = "git"\ntool = "git__*"\n[default]\nallow = false\n')

    assert rule_for(config, "git__log").allow
    assert not rule_for(config, "time__now").allow


def test_a_rules_terms_arrive_in_the_governors_units() -> None:
    config = read("""
[[rule]]
name = "build"
cost_microusd = 7
isolation = "best_effort"
turn_per_call = true
archive_above_bytes = 2048
drop_output_schema = true
limits = { memory_mib = 3, pids = 4, cpus = 0.25, cpu_ms = 500, wall_ms = 900, output_bytes = 10 }
estimate = { wall_ms = 100, cpu_ms = 50 }
""")

    rule = rule_for(config, "any")

    assert rule.limits == ExecutionLimits(
        memory_bytes=3 * MIB, pids=4, cpu_millis=250, cpu_ms=500, wall_ms=900, output_bytes=10
    )
    assert rule.isolation is Isolation.BEST_EFFORT
    assert rule.cost_microusd == 7
    assert (rule.estimate_wall_ms, rule.estimate_cpu_ms) == (100, 50)
    assert (rule.turn_per_call, rule.drop_output_schema) == (True, True)
    assert rule.archive_above_bytes == 2048


def test_a_rule_that_asks_a_person_says_for_how_long() -> None:
    config = read("""
[[rule]]
name = "ask"
tool = "git__commit"
approve = true
approval_wait_s = 5

[default]
approval_wait_s = 10
""")

    asked, silent = (rule_for(config, tool).approval for tool in ("git__commit", "git__log"))

    assert asked == ApprovalTerms(wait_ms=5_000, ttl_ms=3_600_000)
    assert silent is None


def test_a_wait_that_no_answer_can_end_is_refused_with_the_rules_name() -> None:
    config = read('[[rule]]\nname = "ask"\napprove = true\napproval_ttl_s = 20\n')

    with pytest.raises(ConfigError, match=r"rule ask: approval_wait_s.*due after 20 s"):
        policy_of(config)


def test_a_rule_that_says_nothing_has_the_safe_terms() -> None:
    rule = rule_for(Config(), "any")

    assert rule.isolation is Isolation.REQUIRED
    assert rule.limits == ExecutionLimits(
        memory_bytes=512 * MIB,
        pids=128,
        cpu_millis=1000,
        cpu_ms=None,
        wall_ms=60_000,
        output_bytes=8 * MIB,
    )
    # Without an estimate the limit itself is held.
    assert (rule.estimate_wall_ms, rule.estimate_cpu_ms) == (None, None)


def test_the_smallest_share_of_a_processor_is_not_rounded_to_none() -> None:
    config = read("[default.limits]\ncpus = 0.0001\n")

    assert rule_for(config, "any").limits.cpu_millis == 1


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            '[[rule]]\nname = "quick"\nlimits = { wall_ms = 10 }\nestimate = { wall_ms = 11 }',
            "rule quick",
        ),
        ("[default]\nlimits = { cpu_ms = 10 }\nestimate = { cpu_ms = 11 }", "default"),
    ],
)
def test_an_estimate_above_its_limit_is_refused_where_it_stands(text: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        policy_of(read(text))

    assert str(caught.value).startswith(f"{where}: estimate_")
    assert "11" in str(caught.value)


def test_the_version_names_exactly_this_content() -> None:
    one, same = read("[session]\nidle_s = 60\n"), read("# a remark\n[session]\nidle_s=60")
    other = read("[session]\nidle_s = 61\n")

    assert config_version(one) == config_version(same)
    assert config_version(one) != config_version(other)
    assert policy_of(one).version == config_version(one)


def test_a_variable_that_the_file_names_reaches_the_server_that_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ISSUES_TOKEN", SECRET)
    config = read("""
[[upstream]]
name = "issues"
command = ["/opt/issues/server", "--stdio"]
env = { MODE = "read" }
env_from = ["ISSUES_TOKEN"]
cwd = "/srv"
prefix = "none"
start_ms_max = 500
""")

    (spec,) = upstreams_of(config)

    assert spec == StdioSpec(
        name="issues",
        command=("/opt/issues/server", "--stdio"),
        env={"MODE": "read", "ISSUES_TOKEN": SECRET},
        cwd="/srv",
        prefixed=False,
        start_ms_max=500,
    )


def test_a_variable_that_the_file_names_reaches_the_server_that_runs_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ISSUES_AUTHORIZATION", f"Bearer {SECRET}")
    config = read("""
[[upstream]]
name = "issues"
url = "https://mcp.example.org/mcp"
headers = { X-Team = "a" }
headers_from = { Authorization = "ISSUES_AUTHORIZATION" }
""")

    (spec,) = upstreams_of(config)

    assert spec == HttpSpec(
        name="issues",
        url="https://mcp.example.org/mcp",
        headers={"X-Team": "a", "Authorization": f"Bearer {SECRET}"},
    )


@pytest.mark.requirement("nothing-leaves")
def test_a_server_gets_no_variable_that_the_file_does_not_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ISSUES_TOKEN", SECRET)

    (spec,) = upstreams_of(read('[[upstream]]\nname = "a"\ncommand = ["/bin/a"]\n'))

    assert isinstance(spec, StdioSpec)
    assert spec.env == {}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('command = ["a"]\nenv_from = ["NO_SUCH"]', "env_from"),
        ('url = "http://a.test"\nheaders_from = { X-Key = "NO_SUCH" }', "headers_from.X-Key"),
    ],
)
def test_an_upstreams_variable_that_is_not_set_is_named_with_who_wants_it(
    text: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    config = read(f'[[upstream]]\nname = "a"\n{text}\n')

    with pytest.raises(ConfigError) as caught:
        upstreams_of(config)

    said = (
        f"upstream a.{where}: the environment variable NO_SUCH is not set; export it, or name the "
        "file that holds it in NO_SUCH_FILE"
    )
    assert str(caught.value) == said


def test_a_providers_variable_that_is_not_set_is_named_with_who_wants_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    config = read(
        '[[provider]]\nname = "lab"\nbase_url = "http://lab.test"\napi_key_from = "NO_SUCH"\n'
    )

    with pytest.raises(ConfigError, match=r"^provider lab\.api_key_from: .* NO_SUCH is not set"):
        providers_of(config)


def test_a_program_of_this_environment_need_not_be_on_the_path() -> None:
    config = read('[[upstream]]\nname = "time"\ncommand = ["mcp-server-time", "--help"]\n')

    (spec,) = upstreams_of(config)

    assert isinstance(spec, StdioSpec)
    assert spec.command == (str(scripts_directory() / "mcp-server-time"), "--help")
    assert Path(spec.command[0]).is_file()


def test_another_program_is_left_to_the_path() -> None:
    (spec,) = upstreams_of(read('[[upstream]]\nname = "a"\ncommand = ["no-such-server"]\n'))

    assert isinstance(spec, StdioSpec)
    assert spec.command == ("no-such-server",)


def test_a_providers_key_comes_from_the_environment_and_is_never_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAB_KEY", SECRET)
    config = read("""
[[provider]]
name = "lab"
base_url = "https://lab.test/v1/"
api_key_from = "LAB_KEY"
timeout_ms = 9
""")

    (spec,) = providers_of(config)

    assert spec.api_key is not None
    assert spec.api_key.get_secret_value() == SECRET
    assert (spec.base_url, spec.timeouts.whole_ms) == ("https://lab.test/v1", 9)
    assert SECRET not in f"{spec!r} {spec}"


def test_a_provider_without_a_key_has_none() -> None:
    (spec,) = providers_of(read('[[provider]]\nname = "lab"\nbase_url = "http://lab.test"\n'))

    assert spec.api_key is None


def test_the_files_version_does_not_depend_on_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[[upstream]]\nname = "a"\ncommand = ["a"]\nenv_from = ["A_TOKEN"]\n'
    monkeypatch.setenv("A_TOKEN", SECRET)
    before = config_version(read(text))
    monkeypatch.setenv("A_TOKEN", "rotated")

    assert config_version(read(text)) == before


def priced(input_usd: str, output_usd: str) -> ModelTier:
    prices = f"input_usd_per_mtok = {input_usd}\noutput_usd_per_mtok = {output_usd}\n"
    (tier,) = tiers_of(read(TIER + prices))
    return tier


@pytest.mark.requirement("price.never-favours-caller")
@pytest.mark.parametrize(
    ("usd", "microusd"),
    [
        ('"0.15"', 150_000),
        ("0.15", 150_000),
        ("3", 3_000_000),
        ('"0.0000001"', 1),
        ('"0.1000001"', 100_001),
        ("0", 0),
    ],
)
def test_a_price_becomes_whole_micro_dollars_rounded_up(usd: str, microusd: int) -> None:
    price = priced(usd, '"1000000"').price

    assert price is not None
    assert price.input_microusd_per_mtok == microusd
    assert price.output_microusd_per_mtok == 10**12


@pytest.mark.requirement("price.never-favours-caller")
@given(usd=st.decimals(min_value=0, max_value=1_000_000, allow_nan=False, places=12))
def test_no_price_is_rounded_down_nor_up_by_more_than_a_micro_dollar(usd: Decimal) -> None:
    price = priced(f'"{usd:f}"', '"0"').price

    assert price is not None
    assert 0 <= price.input_microusd_per_mtok - usd * 1_000_000 < 1


@pytest.mark.requirement("price.never-favours-caller")
@pytest.mark.parametrize("prices", ["", "input_usd_per_mtok = 1\n", "output_usd_per_mtok = 1\n"])
def test_a_tier_without_both_prices_is_unpriced_and_not_free(prices: str) -> None:
    (tier,) = tiers_of(read(TIER + prices))

    assert tier.price is None


def test_tiers_keep_their_order_and_their_limits() -> None:
    more = '[[tier]]\nname = "high"\nprovider = "lab"\nmodel = "big"\noutput_tokens_max = 9\n'

    low, high = tiers_of(read(TIER + more))

    assert [(tier.name, tier.model, tier.provider) for tier in (low, high)] == [
        ("low", "small", "lab"),
        ("high", "big", "lab"),
    ]
    assert (low.output_tokens_max, high.output_tokens_max) == (4096, 9)


def test_a_tier_rules_keywords_are_compared_in_lower_case() -> None:
    text = (
        '[[tier_rule]]\ntier = "low"\nkeywords = ["Prove", "DEBUG"]\n'
        "prompt_chars_min = 5\nhas_tools = true\n"
    )

    (rule,) = tier_rules_of(read(TIER + text))

    assert rule.tier == "low"
    assert rule.keywords == ("prove", "debug")
    assert (rule.prompt_chars_min, rule.has_tools) == (5, True)


def test_a_budget_arrives_with_its_scope_limits_and_window() -> None:
    config = read("""
[[budget]]
id = "daily"
scope = "agent"
subject = "ada"
limits = { cost_microusd = 5, tool_calls = 0 }
window = { every_s = 86400 }

[[budget]]
id = "for-ever"
scope = "tenant"
limits = { turns = 3 }
""")

    daily, for_ever = budgets_of(config, tenant=TenantId("acme"))

    assert (daily.budget_id, daily.tenant) == ("daily", "acme")
    assert (daily.scope, daily.subject) == (ScopeKind.AGENT, "ada")
    assert daily.limits == Amounts({Unit.COST_MICROUSD: 5, Unit.TOOL_CALLS: 0})
    assert daily.window == Fixed(86_400_000)
    assert (for_ever.scope, for_ever.subject) == (ScopeKind.TENANT, None)
    assert for_ever.window == Lifetime()
    assert not daily.is_quota
    assert not for_ever.is_quota


def test_a_tenant_budget_for_another_tenant_is_refused_by_its_id() -> None:
    text = '[[budget]]\nid = "b"\nscope = "tenant"\nsubject = "other"\nlimits = { turns = 1 }\n'

    with pytest.raises(ConfigError, match=r"^budget b: subject: .*'other'"):
        budgets_of(read(text), tenant=TenantId("acme"))
