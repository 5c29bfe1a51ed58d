# A small MCP server of the older era. Each animal below misbehaves in one way; argv[1] names it.
import json, os, signal, sys, time


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def write(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(message, result):
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))


def refuse(message, code, words):
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": words}}))


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def next_of(*methods):
    """Answers the handshake along the way."""
    while True:
        message = read()
        method = message.get("method")
        if method in methods:
            return message
        if method == "initialize":
            answer(message, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "zoo", "version": "1"}})
        elif method == "tools/list":
            answer(message, {"tools": [{"name": "any", "inputSchema": {"type": "object"}}]})
        elif "id" in message and method:
            refuse(message, -32601, "Method not found")


def forever():
    while True:
        time.sleep(1000)


def garbage():
    write("starting up, please wait {")
    while True:
        message = next_of("tools/call")
        for line in ["", "not json", "{", "[]", "null", "[1, 2]", '{"jsonrpc": "2.0"}', "\x00\x01", '"text"']:
            write(line)
        answer(message, text("through the noise"))


def floods_stderr():
    while True:
        message = next_of("tools/call")
        os.write(2, b"x" * 100_000 + b"\n" * 1_000)
        for _ in range(50):
            os.write(2, b"noise " * 5_000)
        answer(message, text("still here"))


def wrong_ids():
    while True:
        message = next_of("tools/call")
        for wrong in [-1, 999_999, "no such id", None]:
            write(json.dumps({"jsonrpc": "2.0", "id": wrong, "result": text("for somebody else")}))


def never_answers():
    while True:
        next_of("tools/call")


def wedged():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    next_of("tools/call")
    forever()


def leave_a_mark():
    with open("starts", "a") as starts:
        starts.write(f"{os.getpid()}\n")


def silent():
    leave_a_mark()
    forever()


def slow_to_come_up():
    leave_a_mark()
    while not os.path.exists("go"):
        time.sleep(0.01)
    while True:
        answer(next_of("tools/call"), text("at last"))


def exits_at_once():
    print("cannot find my settings", file=sys.stderr)
    sys.exit(4)


def ignores_everything():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        forever()
    answer(next_of("tools/call"), text("up"))
    forever()


def closes_its_output():
    next_of("tools/call")
    os.close(1)
    forever()


def endless_line():
    next_of("tools/call")
    try:
        while True:
            os.write(1, b"x" * 65_536)
    except OSError:
        forever()


def large_answer():
    while True:
        answer(next_of("tools/call"), {"content": [], "structuredContent": {"large": "y" * 2_000_000}})


def no_tool_result():
    while True:
        answer(next_of("tools/call"), {"weather": "fine"})


def leaves_at_the_first_unknown_word():
    message = read()
    if message["method"] != "initialize":
        sys.exit("expected initialize")
    answer(message, {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                     "serverInfo": {"name": "old", "version": "0"}})
    while True:
        answer(next_of("tools/call"), text("as in the old days"))


def plain():
    """What the call asks for, by name of the tool."""
    while True:
        message = next_of("tools/call")
        name = message["params"]["name"]
        if name == "blocks":
            answer(message, {"content": [{"type": "text", "text": "one"},
                                         {"type": "image", "data": "AA==", "mimeType": "image/png"},
                                         {"type": "text", "text": "two"}]})
        elif name == "no":
            answer(message, {"content": [{"type": "text", "text": "no"}], "isError": True})
        elif name == "wordless no":
            answer(message, {"content": [], "isError": True})
        elif name.startswith("MCP error"):
            answer(message, {"content": [{"type": "text", "text": name}], "isError": True})
        elif name == "params":
            answer(message, {"content": [], "structuredContent": message["params"]})
        else:
            code, words = name.split(" ", 1)
            refuse(message, int(code), words)


def answers_in_reverse():
    first, second = next_of("tools/call"), next_of("tools/call")
    for message in (second, first):
        answer(message, text(message["params"]["name"]))
    forever()


def told_to_stop(result):
    message = next_of("tools/call")
    open("up", "w").close()
    cancelled = next_of("notifications/cancelled")
    assert cancelled["params"]["requestId"] == message["id"]
    result(message)
    forever()


def finishes_when_told_to_stop():
    told_to_stop(lambda message: answer(message, text("finished all the same")))


def fails_when_told_to_stop():
    told_to_stop(lambda message: refuse(message, 0, "Request cancelled"))


def endless_list():
    while True:
        message = next_of("tools/list")
        answer(message, {"tools": [], "nextCursor": "more"})


globals()[sys.argv[1]]()
