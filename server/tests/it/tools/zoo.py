# A small MCP server of the older protocol. Each function without parameters below is a server that misbehaves in one
# way; argv[1] names it.
import json, os, signal, sys, threading, time


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
    """Returns the next message of these methods; answers the handshake in between."""
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


def record_start():
    with open("starts", "a") as starts:
        starts.write(f"{os.getpid()}\n")


def silent():
    record_start()
    forever()


def slow_to_come_up():
    record_start()
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
    task = {"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
    while True:
        message = next_of("tools/call")
        answer(message, {"any": {"weather": "fine"}, "list": {"tools": [], "_meta": {}}, "flat task": {**task, "_meta": {}},
                         "task": {"task": task, "_meta": {}}}[message["params"]["name"]])


def leaves_at_the_first_unknown_word():
    message = read()
    if message["method"] != "initialize":
        sys.exit("expected initialize")
    answer(message, {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                     "serverInfo": {"name": "old", "version": "0"}})
    while True:
        answer(next_of("tools/call"), text("as in the old days"))


def plain():
    """Answers by the name of the tool."""
    while True:
        message = next_of("tools/call")
        name = message["params"]["name"]
        if name == "blocks":
            answer(message, {"content": [{"type": "text", "text": "one"},
                                         {"type": "image", "data": "AA==", "mimeType": "image/png"},
                                         {"type": "text", "text": "two"}]})
        elif name == "too much":
            answer(message, {**text("found"), "action": "accept", "tools": [], "prompts": [], "resources": []})
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


def remember_process():
    """Records the process id, so that the test can check that the process is gone."""
    with open("processes", "a") as processes:
        processes.write(f"{os.getpid()}\n")


def mid_call(act):
    remember_process()
    act(next_of("tools/call"))
    forever()


def raw(data):
    while data:
        data = data[os.write(1, data):]


def exits_mid_call():
    mid_call(lambda message: sys.exit(3))


def killed_mid_call():
    mid_call(lambda message: os.kill(os.getpid(), signal.SIGKILL))


def crashes_loudly():
    def act(message):
        os.write(2, b"Traceback: everything is on fire\n")
        os._exit(1)
    mid_call(act)


def leaves_in_good_order():
    mid_call(lambda message: sys.exit(0))


def half_an_answer():
    def act(message):
        raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("half")})[:40].encode())
        sys.exit(0)
    mid_call(act)


def answers_without_a_newline():
    def act(message):
        raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("unended")}).encode())
    mid_call(act)


def answers_and_leaves():
    def act(message):
        answer(message, text("last words"))
        sys.exit(0)
    mid_call(act)


def in_pieces():
    def act(message):
        whole = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("put together")}) + "\n"
        for at in range(0, len(whole), 7):
            raw(whole[at:at + 7].encode())
            time.sleep(0.001)
    mid_call(act)


def drips_forever():
    def act(message):
        while True:
            raw(b" ")
            time.sleep(0.01)
    mid_call(act)


def floods_stderr_forever():
    def flood():
        while True:
            os.write(2, b"noise without end " * 500)
    threading.Thread(target=flood, daemon=True).start()
    mid_call(lambda message: None)


def floods_notifications():
    def act(message):
        for number in range(20_000):
            write('{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "%d"}}' % number)
        answer(message, text("after the flood"))
    mid_call(act)


def floods_progress():
    def act(message):
        token = message["params"]["_meta"]["progressToken"]
        for number in range(20_000):
            write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress",
                              "params": {"progressToken": token if number % 2 else "nobody's", "progress": number}}))
        answer(message, text("after the flood"))
    mid_call(act)


def floods_requests():
    def act(message):
        for number in range(3_000):
            write('{"jsonrpc": "2.0", "id": "q%d", "method": "ping"}' % number)
        answer(message, text("after the flood"))
    mid_call(act)


def asks_back():
    def act(message):
        write(json.dumps({"jsonrpc": "2.0", "id": "mine", "method": "elicitation/create",
                          "params": {"message": "your password?", "requestedSchema": {"type": "object", "properties": {}}}}))
        while True:
            reply = read()
            if reply.get("id") == "mine":
                break
        answer(message, text("refused" if "error" in reply else reply["result"]["action"]))
    mid_call(act)


def asks_back_in_a_loop():
    def act(message):
        for number in range(3_000):
            write(json.dumps({"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create",
                              "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}))
        answer(message, text("after the flood"))
    mid_call(act)


def asks_back_in_the_newer_era():
    answer(next_of("server/discover"), {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "ttlMs": 0, "cacheScope": "private"})
    answer(next_of("tools/list"), {
        "resultType": "complete", "tools": [{"name": "any", "inputSchema": {"type": "object"}}],
        "ttlMs": 0, "cacheScope": "private"})
    asks_back()


def answers_the_first_word_with_nothing():
    remember_process()
    first = read()
    if first["method"] == "server/discover":
        answer(first, {})
        read()
    answer(first, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "zoo", "version": "1"}})
    mid_call(lambda message: answer(message, text("once more")))


def says_that_we_cancelled():
    def act(message):
        write(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                          "params": {"requestId": message["id"], "reason": "says who?"}}))
        answer(message, text("and answers"))
    mid_call(act)


def ignores_the_end_and_the_signal():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mid_call(lambda message: answer(message, text("staying")))


def fork_holding_the_pipes(leave_the_group):
    if os.fork() == 0:
        if leave_the_group:
            os.setsid()
            if os.fork():
                os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        remember_process()
        forever()
    while not os.path.exists("processes"):
        time.sleep(0.001)


def grandchild_keeps_the_pipes():
    def act(message):
        fork_holding_the_pipes(False)
        os._exit(5)
    act(next_of("tools/call"))


def grandchild_flees_the_group():
    def act(message):
        fork_holding_the_pipes(True)
        os._exit(5)
    act(next_of("tools/call"))


def leaves_a_daemon_behind():
    fork_holding_the_pipes(True)
    mid_call(lambda message: answer(message, text("not alone")))


def makes_zombies():
    for _ in range(20):
        if os.fork() == 0:
            os._exit(0)
    mid_call(lambda message: answer(message, text("among the dead")))


def answers_twice():
    def act(message):
        answer(message, text("first"))
        answer(message, text("second"))
    mid_call(act)


def yes_then_no():
    def act(message):
        answer(message, text("yes"))
        refuse(message, -32000, "no")
    mid_call(act)


def no_then_yes():
    def act(message):
        refuse(message, -32000, "no")
        answer(message, text("yes"))
    mid_call(act)


def answers_before_it_is_asked():
    message = next_of("notifications/initialized")
    for number in range(200):
        write(json.dumps({"jsonrpc": "2.0", "id": 1_000 + number, "result": text("too early")}))
    mid_call(lambda message: answer(message, text("in time")))


def answers_only_before_it_is_asked():
    next_of("notifications/initialized")
    for number in range(200):
        write(json.dumps({"jsonrpc": "2.0", "id": 1_000 + number, "result": text("too early")}))
    mid_call(lambda message: None)


def id_as_text():
    def act(message):
        write(json.dumps({"jsonrpc": "2.0", "id": str(message["id"]), "result": text("nearly")}))
    mid_call(act)


def huge_line():
    def act(message):
        answer(message, text("z" * 20_000_000))
    mid_call(act)


def binary():
    def act(message):
        raw(bytes(range(256)) * 400 + b"\n")
        answer(message, text("after the bytes"))
    mid_call(act)


def nothing_but_zeroes():
    def act(message):
        raw(b"\0" * 100_000 + b"\n")
    mid_call(act)


def zeroes_in_the_answer():
    mid_call(lambda message: answer(message, text("a\0b")))


def invalid_text():
    def act(message):
        line = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("???")})
        raw(line.encode().replace(b"???", b"\xff\xfe\xc0") + b"\n")
    mid_call(act)


def deep_answer():
    def act(message):
        deep = "[" * 100_000 + "]" * 100_000
        raw(b'{"jsonrpc": "2.0", "id": %d, "result": %s}\n' % (message["id"], deep.encode()))
    mid_call(act)


def closes_its_input():
    remember_process()
    next_of("notifications/initialized")
    os.close(0)
    forever()


def stops_reading():
    remember_process()
    message = next_of("tools/list")
    answer(message, {"tools": [{"name": "any", "inputSchema": {"type": "object"}}]})
    forever()


def reads_late():
    answer(next_of("tools/list"), {"tools": [{"name": "any", "inputSchema": {"type": "object"}}]})
    while not os.path.exists("go"):
        time.sleep(0.01)
    first = next_of("tools/call")["params"]["arguments"]["long"]
    while True:
        answer(next_of("tools/call"), text(f"{len(first)} before"))


def stops_itself():
    mid_call(lambda message: os.kill(os.getpid(), signal.SIGSTOP))


def in_a_batch():
    def act(message):
        write(json.dumps([{"jsonrpc": "2.0", "id": message["id"], "result": text("batched")}]))
    mid_call(act)


def yes_and_no_at_once():
    def act(message):
        write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("yes"),
                          "error": {"code": -32000, "message": "no"}}))
    mid_call(act)


def null_result():
    mid_call(lambda message: answer(message, None))


def neither_result_nor_error():
    mid_call(lambda message: write(json.dumps({"jsonrpc": "2.0", "id": message["id"]})))


def result_of_the_wrong_shape():
    mid_call(lambda message: answer(message, {"content": "text where a list belongs"}))


def huge_error():
    mid_call(lambda message: refuse(message, -32000, "e" * 4_000_000))


def error_of_the_wrong_shape():
    def act(message):
        write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": "no"}))
    mid_call(act)


def another_protocol():
    remember_process()
    while True:
        message = read()
        if "id" in message:
            write(json.dumps({"jsonrpc": "1.0", "id": message["id"], "result": text("an old acquaintance")}))


def refuses_the_handshake():
    remember_process()
    while True:
        message = read()
        if "id" in message:
            refuse(message, -32603, "not today")


def speaks_of_the_future():
    remember_process()
    message = next_of("initialize")
    answer(message, {"protocolVersion": "2099-01-01", "capabilities": {"tools": {}},
                     "serverInfo": {"name": "zoo", "version": "1"}})
    mid_call(lambda message: answer(message, text("hello from then")))


def answers_the_handshake_to_somebody_else():
    remember_process()
    while True:
        message = read()
        if "id" in message:
            write(json.dumps({"jsonrpc": "2.0", "id": 777_777, "result": {}}))


def leaves_after_the_handshake():
    remember_process()
    next_of("notifications/initialized")
    sys.exit(9)


def note_the_time(file):
    with open(file, "a") as notes:
        notes.write(f"{time.monotonic()}\n")


def well_once_fixed():
    record_start()
    if not os.path.exists("fixed"):
        sys.exit(4)
    while True:
        answer(next_of("tools/call"), text("well again"))


def tells_when_asked():
    while True:
        message = next_of("tools/call")
        note_the_time("arrivals")
        answer(message, text("noted"))


def falls_at_every_call():
    note_the_time("falls")
    next_of("tools/call")
    sys.exit(1)


def falls_at_every_second_call():
    note_the_time("falls")
    answer(next_of("tools/call"), text("once"))
    next_of("tools/call")
    sys.exit(1)


def falls_with_five_calls():
    note_the_time("falls")
    for _ in range(5):
        next_of("tools/call")
    sys.exit(1)


def falls_asleep():
    record_start()
    answer(next_of("tools/call"), text("good night"))
    os.kill(os.getpid(), signal.SIGSTOP)
    forever()


def flood(line):
    data = (line + "\n").encode() * 200
    try:
        while True:
            raw(data)
    except OSError:
        forever()


def pings_and_does_not_read():
    mid_call(lambda message: flood('{"jsonrpc": "2.0", "id": "p", "method": "ping"}'))


def floods_at_start():
    remember_process()
    flood("starting up, please wait")


def floods_noise():
    mid_call(lambda message: flood("this is no message " * 10))


def tool_list(tools, **more):
    return {"tools": tools, **more}


def lists_too_many_tools():
    remember_process()
    while True:
        message = next_of("tools/list")
        answer(message, tool_list([{"name": f"tool_{n}", "description": "d" * 200, "inputSchema": {"type": "object"}}
                                   for n in range(50_000)]))


def lists_many_small_tools():
    remember_process()
    while True:
        message = next_of("tools/list")
        answer(message, tool_list([{"name": f"t{n}"} for n in range(50_000)]))


def lists_long_pages():
    remember_process()
    page = [{"name": "tool", "description": "d" * 1_000_000, "inputSchema": {"type": "object"}}]
    while True:
        message = next_of("tools/list")
        answer(message, tool_list(page, nextCursor="more"))


def answers_late():
    def when_told(message):
        while not os.path.exists("go"):
            time.sleep(0.01)
        answer(message, text("at last"))
    while True:
        message = next_of("tools/call")
        threading.Thread(target=when_told, args=(message,), daemon=True).start()


def ignores_the_end_of_input():
    remember_process()
    try:
        next_of("nothing")
    except SystemExit:
        forever()


globals()[sys.argv[1]]()
