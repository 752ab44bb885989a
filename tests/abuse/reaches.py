"""Programs that reach out of their sandbox: to sockets, to files that they would change, to processes."""

from tests.abuse.program import Program

SOCKETS = (
    Program("TCP", "import socket\nreturn socket.create_connection(('127.0.0.1', at['port']), 2).recv(99).decode()"),
    Program("TCP to any address", "import socket\n"
            "return socket.create_connection(('0.0.0.0', at['port']), 2).recv(99)"),
    Program("HTTP", "import urllib.request\n"
            "return urllib.request.urlopen(f\"http://127.0.0.1:{at['port']}/\", timeout=2).read().decode()"),
    Program("asyncio", "import asyncio\nasync def ask():\n"
            "    reader, writer = await asyncio.open_connection('127.0.0.1', at['port'])\n"
            "    return (await reader.read(99)).decode()\nreturn asyncio.run(ask())"),
    Program("shell's socket", "import subprocess\nreturn subprocess.check_output(\n"
            "    ['bash', '-c', f\"cat < /dev/tcp/127.0.0.1/{at['port']}\"], text=True)"),
    Program("UDP", "import socket\n"
            "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', at['datagrams']))"),
    Program("DNS query", "import socket\n"
            "query = bytes(4) + bytes([0, 1]) + bytes(6) + b'\\3org\\0' + bytes([0, 1, 0, 1])\n"
            "socket.socket(type=socket.SOCK_DGRAM).sendto(query, ('127.0.0.1', at['datagrams']))"),
    Program("abstract socket", "import socket\none = socket.socket(socket.AF_UNIX)\n"
            "one.connect('\\0' + at['abstract'])\nreturn one.recv(99).decode()"),
    Program("unix socket", "import socket\none = socket.socket(socket.AF_UNIX)\n"
            "one.connect(at['socket'])\nreturn one.recv(99).decode()"),
    Program("unix socket by the C library", "import ctypes\nlib = ctypes.CDLL(None)\none = lib.socket(1, 1, 0)\n"
            "where = b'\\1\\0' + at['socket'].encode() + b'\\0'\nlib.connect(one, where, len(where))\n"
            "room = ctypes.create_string_buffer(99)\nlib.recv(one, room, 99, 0)\nreturn room.value.decode()"),
)  # fmt: skip

SIGNALS = (
    Program("signal", "import os, signal\nos.kill(at['process'], signal.SIGUSR1)"),
    Program("signal by a handle", "import os, signal\n"
            "signal.pidfd_send_signal(os.pidfd_open(at['process']), signal.SIGUSR1)"),
    Program("signal by the shell", "import os\nos.system(f\"kill -USR1 {at['process']}\")"),
    Program("signal by the C library", "import ctypes\nctypes.CDLL(None).kill(at['process'], 10)"),
    Program("signal to a group", "import os, signal\nos.killpg(at['process'], signal.SIGUSR1)"),
)  # fmt: skip

WRITES = (
    Program("new file", "open(at['outside'] + '/x', 'w').write('x')"),
    Program("append", "open(at['victim'], 'a').write('x')"),
    Program("pathlib", "from pathlib import Path\nPath(at['victim']).write_text('x')"),
    Program("through a symlink", "import os\nos.symlink(at['victim'], 'link')\nopen('link', 'w').write('x')"),
    Program("remove", "import os\nos.unlink(at['victim'])"),
    Program("rename", "import os\nos.rename(at['victim'], at['victim'] + '.old')"),
    Program("truncate", "import os\nos.truncate(at['victim'], 0)"),
    Program("rights of a file", "import os\nos.chmod(at['victim'], 0)"),
    Program("folder", "import os\nos.makedirs(at['outside'] + '/a/b')"),
    Program("remove a tree", "import shutil\nshutil.rmtree(at['outside'])"),
    Program("pipe", "import os\nos.mkfifo(at['outside'] + '/pipe')"),
    Program("hard link", "import os\nos.link(at['victim'], at['outside'] + '/link')"),
    Program("subprocess", "import subprocess\nsubprocess.run(['touch', at['outside'] + '/x'], check=True)"),
    Program("database", "import sqlite3\nsqlite3.connect(at['outside'] + '/x').execute('CREATE TABLE x (y)')"),
    Program("temporary file", "import tempfile\nreturn tempfile.mkstemp(dir=at['outside'])"),
    Program("start-up file of Python", "open(at['outside'] + '/usercustomize.py', 'w').write('x')"),
)  # fmt: skip

OTHERS = (
    Program("signal to the parent", "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(0.2)"),
    Program("interruption of the parent", "import os, time\nos.kill(os.getppid(), 2)\ntime.sleep(0.2)"),
    Program("signal to all", "import os, signal, time\nos.kill(-1, signal.SIGCONT)"),
    Program("memory of the first process", "return open('/proc/1/mem', 'r+b').read(1)", ends="PermissionError"),
    Program("root of the first process", "return open('/proc/1/root/main.py').read()", ends="PermissionError"),
    Program("maps of the first process", "return open('/proc/1/maps').read()", ends="PermissionError"),
    Program("files of the first process", "import os\nreturn os.listdir('/proc/1/fd')", ends="PermissionError"),
    Program("name of a host", "import socket\nreturn socket.getaddrinfo('example.org', 80)", ends="gaierror"),
    Program("address of a host", "import socket\n"
            "return socket.create_connection(('192.0.2.1', 80), 2)", ends="OSError"),
    Program("another user", "import os\nos.setuid(0)", ends="OSError|PermissionError"),
    Program("own limits", "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", ends="ValueError"),
    Program("the program", "open('/main.py', 'w')", ends="OSError.*Read-only"),
    Program("the system", "open('/usr/x', 'w')", ends="OSError.*Read-only"),
    Program("the root", "open('/x', 'w')", ends="OSError.*Read-only"),
    Program("devices", "open('/dev/shm/x', 'w')", ends="OSError.*Read-only"),
    Program("users of the system", "return open('/etc/passwd').read()", ends="FileNotFoundError"),
    Program("namespaces", "import ctypes\nlib = ctypes.CDLL(None, use_errno=True)\n"
            "for call in (lib.unshare, lib.setns):\n"
            "    assert call(0x10000000, 0) == -1\nraise OSError(ctypes.get_errno(), 'refused')",
            ends="PermissionError|OSError"),
)  # fmt: skip

REACHES = (
    *(Program(one.name, one.body, "reached") for one in (*SOCKETS, *SIGNALS)),
    *(Program(f"write: {one.name}", one.body, "written") for one in WRITES),
    *(Program(f"refused: {one.name}", one.body, ends=one.ends) for one in OTHERS),
)
