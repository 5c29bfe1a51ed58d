# An MCP server of the older protocol whose tools and answers are argv[2] in the file argv[1]: `tools` is the list that
# it gives, read anew each time, `answers` has for each tool a list of rules. The first rule whose `when` the arguments contain applies:
# it answers after `ms`, or when the file `until` exists, with `output`, `error`, or `exit`, which ends the process. A
# server with a `refusal` refuses the handshake with that message.
import json, os, sys, threading, time


def load():
    with open(sys.argv[1]) as file:
        return json.load(file)[sys.argv[2]]


SCRIPT = load()
SENDING = threading.Lock()


def send(message):
    with SENDING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def rule_for(name, arguments):
    rules = SCRIPT.get("answers", {}).get(name, [])
    return next((rule for rule in rules if rule.get("when", {}).items() <= arguments.items()), {})


def call(name, arguments):
    rule = rule_for(name, arguments)
    time.sleep(rule.get("ms", 0) / 1000)
    while "until" in rule and not os.path.exists(rule["until"]):
        time.sleep(0.01)
    if "exit" in rule:
        os._exit(rule["exit"])
    if "error" in rule:
        return {"content": [{"type": "text", "text": rule["error"]}], "isError": True}
    return {"content": [], "structuredContent": rule.get("output", {"done": True})}


def answer(id, params):
    send({"id": id, "result": call(params["name"], params.get("arguments", {}))})


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize" and "refusal" in SCRIPT:
        send({"id": message["id"], "error": {"code": -32000, "message": SCRIPT["refusal"]}})
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "scripted", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": load()["tools"]}
    elif method == "tools/call":
        threading.Thread(target=answer, args=(message["id"], params), daemon=True).start()
        continue
    elif "id" in message:
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        continue
    else:
        continue
    send({"id": message["id"], "result": result})
