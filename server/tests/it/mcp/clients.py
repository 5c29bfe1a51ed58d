"""Lists and calls every tool through the Python client, over stdio or HTTP, in one era of the protocol."""

import asyncio
import json
import os
import sys

import mcp
from mcp.client.stdio import StdioServerParameters

PLAN = {"name": "python", "steps": [{"id": "own", "action": "Say hello", "compensation": {"action": "Take it back"}}]}


async def calls(client):
    names = {tool.name for tool in (await client.list_tools()).tools}
    called = set()

    async def call(name, **arguments):
        result = await client.call_tool(name, arguments)
        assert not result.is_error, (name, result)
        assert result.structured_content is not None, name
        called.add(name)
        return result.structured_content

    await call("list_tools")
    await call("status")
    saved = await call("save_plan", plan=PLAN)
    assert (await call("plan", action="list"))["plans"], "the saved plan is listed"
    started = await call("execute_plan", plan_id=saved["plan_id"], wait_s=30)
    execution = started["id"]
    assert started["status"] == "blocked", started
    report = {"execution_id": execution, "step_id": "own", "description": "said hello"}
    await call("record_action", status="started", **report)
    await call("control", execution_id=execution, action="pause")
    await call("record_decision", execution_id=execution, decision="continue", reason="all is well")
    await call("record_action", status="succeeded", **report)
    await call("query_ledger", execution_id=execution)
    await call("set_context", key="greeting", value=["hello", 1], execution_id=execution)
    found = await call("query_context", search="hello")
    assert found["notes"][0]["value"] == ["hello", 1], found
    undone = {"execution_id": execution, "step_id": "own", "action_taken": "took it back"}
    assert (await client.call_tool("record_compensation", undone)).structured_content is not None
    called.add("record_compensation")
    missing = names - called
    assert not missing, f"not called: {missing}"
    print(json.dumps({"called": sorted(called), "status": (await call("status", execution_id=execution))["status"]}))


async def main():
    mode, *words = sys.argv[1:]
    era = {"legacy": "legacy", "modern": "2026-07-28"}[mode]
    http = words[0].startswith("http")
    target = words[0] if http else StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    async with mcp.Client(target, mode=era) as client:
        await calls(client)


asyncio.run(main())
