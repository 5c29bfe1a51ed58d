"""Makes the calls on stdin through the Python client, over stdio or HTTP, in one era, and prints their results."""

import asyncio
import json
import os
import sys

import mcp
from mcp.client.stdio import StdioServerParameters


async def main():
    mode, *words = sys.argv[1:]
    era = {"legacy": "legacy", "modern": "2026-07-28"}[mode]
    http = words[0].startswith("http")
    target = words[0] if http else StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    results = []
    async with mcp.Client(target, mode=era) as client:
        await client.list_tools()
        for name, arguments in json.load(sys.stdin):
            result = await client.call_tool(name, arguments)
            results.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
    print(json.dumps(results))


asyncio.run(main())
