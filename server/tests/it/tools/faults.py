# An MCP server of the older protocol. Each call first appends a synced line to the file `witness`, then meets a
# fault drawn from the seed, or none. argv: the seed, and how many of 100 calls meet a fault.
import json, os, signal, sys, time, zlib

SEED, FAULTY = sys.argv[1], int(sys.argv[2])
FAULTS = ["exit before", "exit after", "kill before", "kill after", "hang before", "hang after",
          "garbage before", "garbage after", "half an answer", "closed output", "answer to another",
          "no", "error", "no tool result"] * 14 + ["wedged before", "wedged after"]


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(id, result):
    write({"jsonrpc": "2.0", "id": id, "result": result})


def structured(value):
    return {"content": [], "structuredContent": value}


def append(file, text, sync):
    handle = os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(handle, text.encode())
    if sync:
        os.fsync(handle)
    size = os.fstat(handle).st_size
    os.close(handle)
    return size


def effects(id):
    return [name for name in os.listdir("effects") if name.split(".")[0] == id]


def forever():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1000)


def seeded_below(limit, what):
    return zlib.crc32(f"{SEED} {what}".encode()) // 7 % limit


def act(message):
    arguments, meta = message["params"]["arguments"], message["params"]["_meta"]
    id, key = arguments["id"], meta["actbook/idempotency-key"]
    nth = append(f"seen/{id}", ".", False)
    faulty = seeded_below(100, f"{id} {nth}") < FAULTY
    fault = FAULTS[seeded_below(len(FAULTS), f"which {id} {nth}")] if faulty else "none"
    if fault in ("no", "error") and arguments["kind"] == "idempotent" and os.path.exists(f"effects/{id}.{key}"):
        fault = "none"  # A call that took effect under a key does not fail under that key.
    append("witness", f"{id} {key} {fault}\n", True)

    def take_effect():
        # An idempotent tool takes effect once per key.
        name = f"{id}.{key}" if arguments["kind"] == "idempotent" else f"{id}.{nth}"
        if arguments["kind"] != "reads":
            open(f"effects/{name}", "w").close()

    result = structured({"done": id})
    if fault in ("none", "exit after", "kill after", "hang after", "garbage after", "wedged after",
                 "half an answer", "closed output", "answer to another", "no tool result"):
        take_effect()
    if fault == "none":
        answer(message["id"], result)
    elif fault.startswith("exit"):
        os._exit(3)
    elif fault.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.startswith("garbage"):
        sys.stdout.write("}{ not json\n\x00\n")
        sys.stdout.flush()
    elif fault.startswith("wedged"):
        forever()
    elif fault == "half an answer":
        os.write(1, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})[:30].encode())
        os._exit(0)
    elif fault == "closed output":
        os.close(1)
        forever()
    elif fault == "answer to another":
        answer(1_000_000, result)
    elif fault == "no tool result":
        answer(message["id"], {"weather": "fine"})
    elif fault == "no":
        answer(message["id"], {"content": [{"type": "text", "text": "no"}], "isError": True})
    elif fault == "error":
        write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "oops"}})


def look(message):
    id = message["params"]["arguments"]["id"]
    if seeded_below(10, f"look {id}") == 0:
        return answer(message["id"], {"content": [{"type": "text", "text": "cannot look"}], "isError": True})
    answer(message["id"], structured({"exists": bool(effects(id))}))


while True:
    line = sys.stdin.readline()
    if not line:
        break
    message = json.loads(line)
    method = message.get("method")
    if method == "tools/call":
        (look if message["params"]["name"] == "look" else act)(message)
    elif method == "initialize":
        answer(message["id"], {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "faults", "version": "1"}})
    elif method == "tools/list":
        answer(message["id"], {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("act", "look")]})
    elif "id" in message and method:
        write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
