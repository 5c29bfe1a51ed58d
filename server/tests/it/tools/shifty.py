# An MCP server of the older protocol that reads its tool definitions from `tools.json` at each listing, so that a
# test can change them, and appends every call to `calls`.
import json, os, sys, time


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools():
    with open("tools.json") as file:
        return json.load(file)


def note(name, line):
    with open(name, "a") as file:
        file.write(line + "\n")


def call(message):
    name, arguments = message["params"]["name"], message["params"].get("arguments", {})
    note("calls", name)
    if name == "announce":
        send({"method": "notifications/tools/list_changed"})
    if arguments.get("die") and not os.path.exists("died"):
        note("died", name)
        os._exit(3)
    if arguments.get("hold"):
        note("holding", name)
        while not os.path.exists("released"):
            time.sleep(0.01)
    output = arguments.get("say", {"done": name})
    if "json" in arguments:
        output = json.loads(arguments["json"])
    if arguments.get("env"):
        output = {"env": dict(os.environ), "argv": sys.argv}
    if arguments.get("fail"):
        return {"content": [{"type": "text", "text": "no: " + json.dumps(output)}], "isError": True}
    return {"content": [], "structuredContent": output}


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": "shifty", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": tools() + [{"name": "announce", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = call(message)
    elif "id" in message:
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        continue
    else:
        continue
    send({"id": message["id"], "result": result})
