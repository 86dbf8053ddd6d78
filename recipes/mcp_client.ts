// A plain MCP client in TypeScript through Flyball: call a tool, read denials and what is left.
//
//   npm ci
//   flyball run -- node recipes/mcp_client.ts time__get_current_time '{"timezone": "Europe/Oslo"}'
//
// Node.js 22.18 and newer run TypeScript as it stands.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

interface Balance {
  budget_id: string;
  remaining: number;
  unit: string;
}

const [tool = 'time__get_current_time', given = '{}'] = process.argv.slice(2);
const { FLYBALL_MCP_URL, FLYBALL_TOKEN, FLYBALL_SESSION } = process.env;
const headers: Record<string, string> = { Authorization: `Bearer ${FLYBALL_TOKEN}` };
if (FLYBALL_SESSION) headers['Flyball-Session'] = FLYBALL_SESSION;

const client = new Client({ name: 'recipe', version: '1' });
await client.connect(
  new StreamableHTTPClientTransport(new URL(FLYBALL_MCP_URL!), { requestInit: { headers } }),
);
const result = await client.callTool({
  name: tool,
  arguments: JSON.parse(given),
  // Who tries again with the same key gets the same outcome, and is charged once.
  _meta: { 'flyball/idempotency_key': crypto.randomUUID() },
});
await client.close();

for (const block of result.content) if (block.type === 'text') console.log(block.text);
for (const line of (result._meta?.['flyball/budget'] ?? []) as Balance[])
  console.error(`left in ${line.budget_id}: ${line.remaining} ${line.unit}`);
const denial = result._meta?.['flyball/denial'] as { remedy: { text: string } } | undefined;
if (denial) console.error(`denied: ${denial.remedy.text}`);
process.exit(result.isError ? 1 : 0);
