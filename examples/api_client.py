"""A client of Actbook's HTTP API: starts a plan, answers its question, undoes it, and reads what happened.

    python3 api_client.py http://127.0.0.1:4700 $TOKEN

Needs nothing but Python. The token needs the role `admin`, or `operator` and `approver` together.
"""

import json
import sys
import urllib.error
import urllib.request
import uuid

BASE, TOKEN = sys.argv[1].rstrip("/") + "/api/v1", sys.argv[2]


def call(method, path, body=None, **headers):
    """The status and the JSON of a response; of a refused one its problem document."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers |= {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def events(after, execution):
    """The entries of an execution after a position, as they are appended: their ids and data."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Last-Event-ID": str(after)}
    request = urllib.request.Request(f"{BASE}/events?execution={execution}", headers=headers)
    with urllib.request.urlopen(request) as stream:
        event = {}
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if "data" in event and not line.strip():
                yield int(event["id"]), json.loads(event["data"])
            event = event | {name: value} if line.strip() else {}


def write(step, **more):
    undo = {"tool": "files/delete_file", "arguments": {"path": "${arguments.path}"}}
    return {"id": step, "tool": "files/write_file", "arguments": {"path": f"{step}.txt", "content": "x"}, "compensation": undo} | more


plan = {"name": "careful", "steps": [write("first"), write("second", approval="required")]}
key = str(uuid.uuid4())

# Start it. The same request under the same key starts nothing further; another request under it is refused.
status, execution = call("POST", "/executions", {"plan": plan, "wait_s": 60}, Idempotency_Key=key)
assert (status, execution["status"]) == (201, "blocked"), execution
assert call("POST", "/executions", {"plan": plan}, Idempotency_Key=key)[1]["id"] == execution["id"]
status, problem = call("POST", "/executions", {"plan_id": "careful"}, Idempotency_Key=key)
assert (status, problem["code"]) == (422, "key_reused"), problem

# Answer what it asks, by the question's id: an answer never counts for another question.
question = next(one for one in call("GET", "/questions")[1]["items"] if one["execution"]["id"] == execution["id"])
path, answer = f"/executions/{execution['id']}", {"step_id": question["step"], "question": question["id"], "wait_s": 60}
status, done = call("POST", f"{path}/approve", answer | {"reason": "read it"})
assert (status, done["status"]) == (200, "succeeded"), done
status, problem = call("POST", f"{path}/approve", answer)
assert (status, problem["code"], problem["answer"]["kind"]) == (409, "stale_question", "step_approved"), problem

# Undo it, after a look at what that would do.
brief = call("POST", f"{path}/undo", {"dry_run": True})[1]
assert [item["step"] for item in brief["undo"]] == ["second", "first"], brief
undone = call("POST", f"{path}/undo", {"reason": "a rehearsal", "wait_s": 60})[1]
assert undone["status"] == "compensated", undone

# Read the journal as a stream. A stream that was cut resumes after the last position that was read.
first, seen = next(events(0, execution["id"]))
positions = [first]
for position, entry in events(first, execution["id"]):
    positions.append(position)
    if position == undone["position"]:
        break
listed = call("GET", f"{path}/journal?limit=500")[1]["items"]
assert positions == [entry["position"] for entry in listed], (positions, listed)
print(f"{seen['kind']} … {entry['kind']}: {len(positions)} entries, each once")
