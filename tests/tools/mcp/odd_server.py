"""An MCP server that answers what it is told to: `odd_server.py LISTED [CALLED]`, each a part of a JSON-RPC message.

LISTED answers `tools/list`, CALLED a call, such as `{"result": {"tools": []}}`; it ends where it has no answer.
"""

import json
import sys

told = dict(zip(("tools/list", "tools/call"), sys.argv[1:], strict=False))
about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        answer = {"result": {"protocolVersion": asked["params"]["protocolVersion"], **about}}
    elif asked["method"] in told:
        answer = json.loads(told[asked["method"]])
    else:
        break
    sys.stdout.write(f"{json.dumps({'jsonrpc': '2.0', 'id': asked['id'], **answer})}\n")
    sys.stdout.flush()
