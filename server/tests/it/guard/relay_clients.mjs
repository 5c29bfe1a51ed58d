// Makes the calls on stdin through the TypeScript client, over stdio, in one era, and prints their results.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.ACTBOOK_TEST_CLIENTS, "package.json"));
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [era, command, ...args] = process.argv.slice(2);
const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
const client = new Client({ name: "typescript", version: "1" }, { versionNegotiation: { mode } });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
await client.listTools();
const results = [];
for (const [name, given] of JSON.parse(readFileSync(0, "utf8"))) {
  results.push(await client.callTool({ name, arguments: given }));
}
console.log(JSON.stringify(results));
await client.close();
