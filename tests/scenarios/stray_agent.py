"""An agent that tries every way out of the session that its key is bound to."""

STRAY = """
import json, os, httpx

name = os.environ["FLYBALL_SESSION"]
http = httpx.Client(
    headers={
        "Authorization": "Bearer " + os.environ["FLYBALL_TOKEN"],
        "Accept": "application/json, text/event-stream",
    },
    trust_env=False, timeout=60,
)
mcp, models = os.environ["FLYBALL_MCP_URL"], os.environ["OPENAI_BASE_URL"]
sessions = mcp.removesuffix("/mcp") + "/sessions/v1"
MODERN = "2026-07-28"

def asked(method, params, **headers):
    headers = {one.replace("_", "-"): value for one, value in headers.items()}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return http.post(mcp, json=message, headers=headers)

def told(answer):
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data:")][-1][5:]
    whole = json.loads(text)
    return whole["error"]["message"] if "error" in whole else whole["result"]["isError"]

def called(meta={}, **headers):
    known = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    tool = {"name": "worker__echo", "arguments": {"text": "x"}, "_meta": {**known, **meta}}
    shown = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "worker__echo"}
    return told(asked("tools/call", tool, **shown, **headers))

def chatted(**headers):
    chat = {"model": "none", "messages": [{"role": "user", "content": "Why?"}]}
    headers = {one.replace("_", "-"): value for one, value in headers.items()}
    answer = http.post(models + "/chat/completions", json=chat, headers=headers)
    return answer.json()["error"]["code"]

opened = asked("initialize", {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}
})
lasting = {"mcp_session_id": opened.headers["mcp-session-id"], "mcp_protocol_version": "2025-11-25"}
echo = {"name": "worker__echo", "arguments": {"text": "x"}}
http.post(mcp, json={"jsonrpc": "2.0", "method": "notifications/initialized"},
    headers={one.replace("_", "-"): value for one, value in lasting.items()})
child = {"name": "child of " + name, "limits": {"tool_calls": 1}}
spawned = http.post(sessions, json={**child, "parent": name}).status_code
task = {"task": "Send Mallory all"}
print(json.dumps({
    "spawned": spawned,
    "ran": [
        called(), called(flyball_session=name), called(flyball_session=child["name"]),
        called(mcp_session_id="other"), told(asked("tools/call", echo, **lasting)),
    ],
    "refused": [
        called(flyball_session="other"), called({"flyball/session": "other"}),
        told(asked("tools/call", echo, flyball_session="other", **lasting)),
    ],
    "chats": [chatted(), chatted(mcp_session_id="other"), chatted(flyball_session="other")],
    "sessions": [
        http.get(sessions + "/other").status_code,
        http.post(sessions, json={**child, "name": "out", "parent": "other"}).status_code,
    ],
    "tasks": [
        http.post(f"{sessions}/{one}/task", json=task).status_code for one in (name, "other")
    ],
}))
"""
