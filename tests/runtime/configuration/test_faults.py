"""A file that cannot be used is refused in words that name the key, the value and the fix."""

from pathlib import Path

import pytest

from runtime.configuration.load import load_config, parse_config
from runtime.configuration.model import Config
from runtime.errors import ConfigError

BUDGET = '[[budget]]\nid = "a"\nscope = "agent"\n'
PROVIDER = '[[provider]]\nname = "lab"\nbase_url = "http://lab.test/v1"\n'
TIER = PROVIDER + '[[tier]]\nname = "low"\nprovider = "lab"\nmodel = "small"\n'
SERVER = '[[upstream]]\nname = "files"\ncommand = ["files-server"]\n'


def refusal_of(text: str) -> list[str]:
    """Return what is said about `text`, a line for each fault."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="flyball.toml")
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lissten]\n", "lissten: there is no such key; did you mean 'listen'?"),
        ('[listen]\nagent = "x"', "listen.agent: there is no such key; did you mean 'agents'?"),
        (
            '[[rule]]\nname = "a"\nlimits = { memory_mb = 1 }',
            "rule[0].limits.memory_mb: there is no such key; did you mean 'memory_mib'?",
        ),
        (
            TIER + "output_token_max = 9",
            "tier[0].output_token_max: there is no such key; did you mean 'output_tokens_max'?",
        ),
        (
            "[auth]\nkerberos = true",
            "auth.kerberos: there is no such key; remove it, or use one of: mode, principal",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(text: str, said: str) -> None:
    assert refusal_of(text) == [f"flyball.toml: {said}"]


@pytest.mark.parametrize(
    ("text", "where", "value", "fix"),
    [
        ("[listen]\nagents = 8700", "listen.agents", "8700", "put it in quotes"),
        (
            '[listen]\ntrusted_proxy = "perhaps"',
            "listen.trusted_proxy",
            "'perhaps'",
            "write true or false, without quotes",
        ),
        (
            '[default.limits]\npids = "many"',
            "default.limits.pids",
            "'many'",
            "write a whole number without quotes",
        ),
        ("[default.limits]\npids = 1.5", "default.limits.pids", "1.5", "write a whole number"),
        (
            "[session]\nidle_s = [30]",
            "session.idle_s",
            "[30]",
            "write a whole number",
        ),
        (
            '[[upstream]]\nname = "a"\ncommand = "files-server --all"',
            "upstream[0].command",
            "'files-server --all'",
            'write a list: ["…", "…"]',
        ),
        (
            BUDGET + "limits = { turns = 1 }\nwarn_at_permille = 500",
            "budget[0].warn_at_permille",
            "500",
            "write a list: [500, 900]",
        ),
        (
            '[[upstream]]\nname = "a"\ncommand = ["a"]\nenv = ["HOME=/srv"]',
            "upstream[0].env",
            "['HOME=/srv']",
            "write a table: { key = value }",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_shown_with_its_key_and_the_fix(
    text: str, where: str, value: str, fix: str
) -> None:
    (said,) = refusal_of(text)

    assert said.startswith(f"flyball.toml: {where} = {value}: ")
    assert said.endswith(f"; {fix}")


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        ("[session]\nidle_s = 0", "session.idle_s = 0", "should be greater than 0"),
        (
            "[default]\ncost_microusd = -1",
            "default.cost_microusd = -1",
            "greater than or equal to 0",
        ),
        ("[default.loops]\ndeny = 51", "default.loops.deny = 51", "less than or equal to 50"),
        (
            "[default]\narchive_above_bytes = 1",
            "default.archive_above_bytes = 1",
            "greater than or equal to 1024",
        ),
        (
            "[default]\napproval_wait_s = -1",
            "default.approval_wait_s = -1",
            "greater than or equal to 0",
        ),
        ("[default]\napproval_ttl_s = 0", "default.approval_ttl_s = 0", "greater than 0"),
        (
            "[default]\napproval_ttl_s = 2592001",
            "default.approval_ttl_s = 2592001",
            "less than or equal to 2592000",
        ),
        (
            "[default.limits]\ncpus = 4000.0",
            "default.limits.cpus = 4000.0",
            "less than or equal to 1024",
        ),
        (
            "[default.limits]\nwall_ms = 9223372036854775807",
            "default.limits.wall_ms = 9223372036854775807",
            "less than or equal to 4611686018427387904",
        ),
    ],
)
def test_a_number_out_of_range_is_shown_with_its_key_and_the_bound(
    text: str, where: str, fix: str
) -> None:
    (said,) = refusal_of(text)

    assert said.startswith(f"flyball.toml: {where}: ")
    assert said.endswith(fix)


@pytest.mark.parametrize(
    ("text", "where", "options"),
    [
        ('[auth]\nmode = "open"', "auth.mode = 'open'", ("'token'", "'none'")),
        ('[store]\ndurability = "ram"', "store.durability = 'ram'", ("'power'", "'process'")),
        (
            '[records]\narguments = "all"',
            "records.arguments = 'all'",
            ("'redacted'", "'full'", "'hash'"),
        ),
        (
            '[[budget]]\nid = "a"\nscope = "team"\nlimits = { turns = 1 }',
            "budget[0].scope = 'team'",
            ("'tenant'", "'agent'", "'session'"),
        ),
        (
            BUDGET + "limits = { dollars = 5 }",
            "budget[0].limits.dollars",
            ("'cost_microusd'", "'tool_calls'", "'cpu_ms'"),
        ),
        (
            '[default]\nloops = "sometimes"',
            "default.loops = 'sometimes'",
            ('"off"', '"remind"', '"break"', "{ remind = 3, deny = 6 }"),
        ),
        (
            '[default]\ntracker = "loud"',
            "default.tracker = 'loud'",
            ("'off'", "'line'", "'when_low'"),
        ),
    ],
)
def test_a_word_that_is_no_choice_is_refused_with_the_choices(
    text: str, where: str, options: tuple[str, ...]
) -> None:
    (said,) = refusal_of(text)

    assert said.startswith(f"flyball.toml: {where}")
    assert [option for option in options if option not in said] == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[[upstream]]\ncommand = ["a"]', "upstream[0].name"),
        ('[[rule]]\ntool = "*"', "rule[0].name"),
        (BUDGET, "budget[0].limits"),
        ('[[provider]]\nname = "lab"', "provider[0].base_url"),
        ('[[tier_rule]]\nkeywords = ["prove"]', "tier_rule[0].tier"),
    ],
)
def test_a_missing_key_is_asked_for(text: str, where: str) -> None:
    assert refusal_of(text) == [f"flyball.toml: {where}: is required; add it"]


@pytest.mark.parametrize("address", ["8700", "127.0.0.1", "127.0.0.1:", "::1:8700", "a b:1", ":1"])
def test_an_address_without_host_and_port_is_refused_with_an_example(address: str) -> None:
    (said,) = refusal_of(f'[listen]\nagents = "{address}"')

    assert said.startswith(f"flyball.toml: listen.agents = '{address}': ")
    assert said.endswith('expected "host:port", for example "127.0.0.1:8700"')


def test_a_port_above_the_highest_is_refused() -> None:
    (said,) = refusal_of('[listen]\nadmin = "127.0.0.1:65536"')

    assert "listen.admin = '127.0.0.1:65536': there is no port above 65535" in said


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:8700", "localhost:65535"])
def test_an_address_of_host_and_port_is_taken(address: str) -> None:
    config = parse_config(f'[listen]\nagents = "{address}"', source="flyball.toml")

    assert config.listen.agents == address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SERVER * 2, "upstream[1].name: upstream files appears twice"),
        ('[[rule]]\nname = "a"\n' * 2, "rule[1].name: rule a appears twice"),
        (
            (BUDGET + "limits = { turns = 1 }\n") * 2,
            "budget[1].id: budget a appears twice",
        ),
        (PROVIDER * 2, "provider[1].name: provider lab appears twice"),
        (
            TIER + '[[tier]]\nname = "low"\nprovider = "lab"\nmodel = "big"\n',
            "tier[1].name: tier low appears twice",
        ),
    ],
)
def test_two_entries_of_one_name_are_refused(text: str, said: str) -> None:
    (line,) = refusal_of(text)

    assert line.endswith(said)


@pytest.mark.parametrize("more", ["", 'command = ["a"]\nurl = "http://a.test/mcp"\n'])
def test_an_upstream_is_started_or_called_and_never_both_or_neither(more: str) -> None:
    (said,) = refusal_of('[[upstream]]\nname = "a"\n' + more)

    kinds = "give exactly one of `command` and `url`, or the `kind` of a plug-in"
    assert said == f"flyball.toml: upstream[0]: {kinds}"


def test_an_upstream_that_is_started_names_a_program() -> None:
    (said,) = refusal_of('[[upstream]]\nname = "a"\ncommand = []')

    assert said == "flyball.toml: upstream[0]: command: name the program to start"


@pytest.mark.parametrize("name", ["a__b", "_a", "a_", "a b", "ä", "a.b"])
def test_an_upstreams_name_that_cannot_be_a_prefix_is_refused(name: str) -> None:
    (said,) = refusal_of(f'[[upstream]]\nname = "{name}"\ncommand = ["a"]')

    assert said.startswith(f"flyball.toml: upstream[0].name = '{name}': use letters, digits")


def test_only_a_single_upstream_may_go_without_a_prefix() -> None:
    alone = SERVER + 'prefix = "none"\n'

    (said,) = refusal_of(alone + '[[upstream]]\nname = "git"\ncommand = ["git-server"]\n')

    assert said.endswith('upstream: prefix = "none" is for a single upstream; remove it')
    assert parse_config(alone, source="flyball.toml").upstream[0].prefix == "none"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[[upstream]]\nname = "a"\nurl = "a.test/mcp"', "upstream[0].url = 'a.test/mcp'"),
        ('[[provider]]\nname = "a"\nbase_url = "ftp://a"', "provider[0].base_url = 'ftp://a'"),
    ],
)
def test_a_url_of_another_scheme_is_refused(text: str, where: str) -> None:
    (said,) = refusal_of(text)

    assert said.startswith(f"flyball.toml: {where}: expected an http:// or https:// address")


@pytest.mark.requirement("oauth.secrets-stay-here")
def test_a_webhook_with_a_password_in_it_is_refused_without_being_quoted() -> None:
    url = "https://flyball:p/ss@w0rd@hooks.example.org/in"

    [said] = refusal_of(f'[webhook]\nurl = "{url}"\nsecret_from = "A"\n')

    assert "without a user in it" in said
    assert "hooks.example.org" in said
    assert "ss" not in said.partition("expected")[0]


@pytest.mark.parametrize("key", ["tls_cert", "tls_key"])
def test_half_of_a_certificate_is_refused(key: str) -> None:
    (said,) = refusal_of(f'[listen]\n{key} = "/etc/flyball/half.pem"')

    assert said == "flyball.toml: listen: tls_cert and tls_key go together: give both or neither"


def test_a_tier_of_an_unknown_provider_is_refused_by_both_names() -> None:
    (said,) = refusal_of(TIER.replace('provider = "lab"', 'provider = "lap"'))

    assert said.endswith("tier low: no [[provider]] is called 'lap'")


def test_more_tiers_than_can_be_learned_of_are_refused() -> None:
    tier = '[[tier]]\nname = "t{}"\nprovider = "lab"\nmodel = "small"\n'

    (said,) = refusal_of(PROVIDER + "".join(tier.format(number) for number in range(65)))

    assert said.endswith("tier: 65 are too many; `auto` chooses between at most 64")


def test_a_tier_rule_for_an_unknown_tier_is_refused_by_its_number() -> None:
    (said,) = refusal_of(TIER + '[[tier_rule]]\ntier = "low"\n[[tier_rule]]\ntier = "middling"\n')

    assert said.endswith("tier_rule[1]: no [[tier]] is called 'middling'")


@pytest.mark.requirement("price.never-favours-caller")
@pytest.mark.parametrize("price", ["-0.01", "nan", "inf", '"cheap"'])
def test_a_price_that_is_no_amount_is_refused(price: str) -> None:
    (said,) = refusal_of(TIER + f"input_usd_per_mtok = {price}\n")

    assert said.startswith("flyball.toml: tier[0].input_usd_per_mtok = ")


def test_every_fault_is_listed_at_once() -> None:
    said = refusal_of('[lissten]\n[auth]\nmode = "open"\n[default.limits]\npids = -1\n')

    assert len(said) == 3
    assert all(line.startswith("flyball.toml: ") for line in said)
    assert {line.split()[1].rstrip(":") for line in said} == {
        "auth.mode",
        "default.limits.pids",
        "lissten",
    }


def test_a_long_value_is_shown_cut() -> None:
    (said,) = refusal_of(f'[auth]\nmode = "{"x" * 5_000}"')

    assert len(said) < 200


def test_text_that_is_not_toml_is_refused_with_its_place() -> None:
    (said,) = refusal_of('[listen]\nagents = "127.0.0.1:8700\n')

    assert said.startswith("flyball.toml: not valid TOML: ")
    assert "line 2" in said


def test_a_missing_file_is_answered_with_the_two_ways_out(tmp_path: Path) -> None:
    path = tmp_path / "flyball.toml"

    with pytest.raises(ConfigError) as caught:
        load_config(path)

    said = f"{path}: no such file. `flyball init` writes one, --config names another."
    assert str(caught.value) == said


def test_a_directory_in_the_files_place_is_said_to_be_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        load_config(tmp_path)

    assert str(tmp_path) in str(caught.value)


def test_a_file_that_is_not_utf_8_is_said_to_be_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "flyball.toml"
    path.write_bytes(b"# caf\xe9\n")

    with pytest.raises(ConfigError, match="cannot be read") as caught:
        load_config(path)

    assert str(path) in str(caught.value)


def test_a_files_faults_carry_its_path(tmp_path: Path) -> None:
    path = tmp_path / "flyball.toml"
    path.write_text("[lissten]\n", encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        load_config(path)

    assert str(caught.value).startswith(f"{path}: lissten: ")


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "flyball.toml"
    path.touch()

    assert load_config(path) == Config()


def test_both_listeners_at_one_address_are_refused() -> None:
    (said,) = refusal_of('[listen]\nagents = "127.0.0.1:9000"\nadmin = "127.0.0.1:9000"\n')

    assert "agents and admin are both 127.0.0.1:9000" in said
    free = '[listen]\nagents = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'
    assert parse_config(free, source="flyball.toml").listen.admin.endswith(":0")


def test_single_brackets_where_there_can_be_several_are_told() -> None:
    (said,) = refusal_of('[rule]\nname = "a"\n')

    assert "write [[rule]], with two brackets" in said


@pytest.mark.parametrize(
    "text",
    [
        "[listen]\nagents = 8700",
        '[[upstream]]\nname = "a"\ncommand = "x"',
        BUDGET + "limits = { dollars = 5 }",
        "listen = 5",
        "[default]\nloops = 5",
        "[default]\nloops = { remind = [3] }",
    ],
)
def test_no_words_of_the_library_reach_the_operator(text: str) -> None:
    (said,) = refusal_of(text)

    for jargon in ("Input", "valid tuple", "valid string", "[key]", "instance of", "dictionary"):
        assert jargon not in said
