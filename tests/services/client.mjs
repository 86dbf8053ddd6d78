// The TypeScript client, through a sidecar: prints what it got as one line of JSON.
// node client.mjs URL MODE, where MODE is "legacy", "auto" or a version to pin.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, mode] = process.argv.slice(2);
const negotiated = mode === 'legacy' || mode === 'auto' ? mode : { pin: mode };
const client = new Client(
  { name: 'matrix', version: '1' },
  { capabilities: { sampling: {} }, versionNegotiation: { mode: negotiated } },
);
client.setRequestHandler('sampling/createMessage', async () => ({
  role: 'assistant',
  model: 'none',
  content: { type: 'text', text: 'sampled here' },
}));

await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const text = (result) => result.content.map((block) => block.text ?? '').join('\n');
const call = async (name, args) => text(await client.callTool({ name, arguments: args }));
const got = {
  tools: (await client.listTools()).tools.map((tool) => tool.name),
  prompts: (await client.listPrompts()).prompts.map((prompt) => prompt.name),
  resources: (await client.listResources()).resources.length,
  echo: await call('everything__echo', { message: 'hi' }),
  sum: await call('remote__get-sum', { a: 2, b: 3 }),
  time: await call('time__get_current_time', { timezone: 'UTC' }),
  sampled: await call('remote__trigger-sampling-request', { prompt: 'say', maxTokens: 9 }),
};
await client.close();
process.stdout.write(JSON.stringify(got) + '\n');
process.exit(0);
