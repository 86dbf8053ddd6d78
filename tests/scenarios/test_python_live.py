"""Python source as agents run it: in a domain of its own, with large sources and input."""

import pytest
from scenarios.process import SidecarProcess, denial_of, text_of

pytestmark = pytest.mark.anyio

RULE = """
[[rule]]
name = "python"
tool = "python_run"
isolation = "best_effort"
limits = { memory_mib = 64, wall_ms = 20000 }
"""


@pytest.mark.requirement("local.python-run")
@pytest.mark.parametrize("sidecar", [RULE], indirect=True)
async def test_agents_run_python_by_a_rule_of_its_own(sidecar: SidecarProcess) -> None:
    code = "import sys\n" + "x = 1  # a long source\n" * 3_000
    async with sidecar.agent() as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        good = await client.call_tool(
            "python_run",
            {"code": f"{code}print(sys.argv[1], sys.stdin.read())", "args": ["a"], "stdin": "b"},
        )
        bad = await client.call_tool("python_run", {"code": "raise ValueError('no')"})
        hog = await client.call_tool("python_run", {"code": "x = b'x' * (300 << 20)\nprint(1)"})
        shell = await client.call_tool("shell_run", {"command": "id"})

    assert "python_run" in tools
    assert text_of(good) == "a b\n"
    assert good.meta["flyball/call"]["usage"]["cpu_ms"] > 0
    assert good.meta["flyball/shell"] == {"exit_code": 0, "status": "ok"}
    assert bad.is_error
    assert 'File "<python_run>", line 1' in text_of(bad)
    assert hog.is_error
    denied = denial_of(shell)
    assert denied is not None
    assert denied["reason"] == "policy_denied"
