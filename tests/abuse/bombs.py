"""Programs that would not end, that take what they can get, that forge a result, or that leave something behind."""

from tests.abuse.program import Program

TIME = (
    Program("loop", "while True: pass", ends="late"),
    Program("sleep", "import time\ntime.sleep(10**6)", ends="late"),
    Program("sum in C", "return sum(range(10**13))", ends="late"),
    Program("power in C", "return len(str(7 ** (10 ** 8)))", ends="late|ValueError"),
    Program("backtracking", "import re\nreturn re.match('(a+)+$', 'a' * 60 + 'b')", ends="late"),
    Program("endless iterator", "import itertools\nreturn max(itertools.count())", ends="late"),
    Program("blocked signals", "import signal\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass", ends="late"),
    Program("caught exceptions", "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
            ends="late"),
    Program("stopped", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", ends="late"),
    Program("changed clocks", "import time\ntime.time = time.monotonic = time.process_time = lambda: 0.0\n"
            "while True: time.sleep(0.01)", ends="late"),
    Program("alarms", "import signal, time\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
            "signal.setitimer(signal.ITIMER_REAL, 10**6)\ntime.sleep(10**6)", ends="late"),
    Program("own limit on time", "import resource\n"
            "resource.setrlimit(resource.RLIMIT_CPU, resource.getrlimit(resource.RLIMIT_CPU)[1:] * 2)\n"
            "while True: pass", ends="late"),
    Program("processes in a session of their own", "import os, time\nif os.fork():\n    time.sleep(10**6)\n"
            "os.setsid()\ntime.sleep(10**6)", ends="late"),
    Program("thread that does not end", "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(10**6,)).start()",
            ends="late"),
)  # fmt: skip

ROOM = (
    Program("list", "x = [0] * 10**10", ends="MemoryError"),
    Program("text", "x = 'y'\nwhile True: x += x", ends="MemoryError"),
    Program("many objects", "x = []\nwhile True: x = [x, 'y' * 10**6]", ends="MemoryError"),
    Program("width of a format", "return '{:>100000000000}'.format(1)", ends="MemoryError|ValueError"),
    Program("large shift", "return 1 << 10**11", ends="MemoryError|OverflowError"),
    Program("compressed zeros", "import zlib\nreturn len(zlib.decompress(zlib.compress(bytes(10**8), 1)))",
            ends="MemoryError"),
    Program("mapped memory", "import mmap\nx = [mmap.mmap(-1, 2**26) for _ in range(99)]", ends="OSError|MemoryError"),
    Program("recursion", "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return [f(n + 1)]\nreturn f(0)",
            ends="139|MemoryError|RecursionError|late"),
    Program("nested text", "return eval('(' * 10**4 + ')' * 10**4)",
            ends="MemoryError|RecursionError|SyntaxError|full"),
    Program("nested result", "x = []\nfor _ in range(10**5): x = [x]\nreturn x", ends="RecursionError"),
    Program("nested JSON", "import json\nreturn json.loads('[' * 10**6)", ends="RecursionError"),
    Program("forks", "import os\nwhile True: os.fork()", ends="late|BlockingIOError"),
    Program("forks that try again", "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError: pass",
            ends="late"),
    Program("threads", "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()",
            ends="RuntimeError|MemoryError|late"),
    Program("one large file", "open('x', 'wb').write(b'y' * 2**23)", ends="File too large|No space left"),
    Program("many files", "for n in range(10**6): open(f'/tmp/{n}', 'wb').write(b'y' * 2**18)", ends="No space left"),
    Program("many folders", "import os\nfor n in range(10**7): os.mkdir(f'/tmp/{n}')", ends="more than 500 files|late"),
    Program("many open files", "x = [open('/dev/null') for _ in range(10**4)]", ends="Too many open files"),
    Program("much output", "while True: print('x' * 999)", ends="full"),
    Program("much output as errors", "import sys\nwhile True: print('x' * 999, file=sys.stderr)", ends="full"),
    Program("large result", "return 'x' * 10**7", ends="full"),
    Program("crash", "import ctypes\nctypes.string_at(0)", ends="139"),
    Program("abort", "import os\nos.abort()", ends="134"),
)  # fmt: skip

FORGERIES = (
    Program("printed result", "import os\nprint('=forged', flush=True)\nos._exit(0)", ends="ended before"),
    Program("exit", "print('All tests pass.')\nraise SystemExit(0)", ends="ended before"),
    Program("printed at the end", "import atexit\natexit.register(print, '=forged')\n"
            "raise ValueError('odd')", ends="ValueError"),
    Program("renamed functions", "import sys\nmain = sys.modules['__main__']\n"
            "main.format_result = lambda value: 'forged'\nraise ValueError('odd')", ends="ValueError"),
    Program("hook for exceptions", "import sys\nsys.excepthook = lambda *_: print('=forged')\nraise ValueError('odd')",
            ends="1"),
)  # fmt: skip

LEFTOVERS = (
    Program("file", "open('/tmp/left', 'w').write('x')"),
    Program("name among builtins", "import builtins\nbuiltins.left = 1"),
    Program("changed module", "import json\njson.dumps = lambda *_, **__: 'left'"),
    Program("changed builtin", "import builtins\nbuiltins.sorted = lambda *_: ['left']"),
    Program("environment", "import os\nos.environ['LEFT'] = '1'"),
    Program("module", "import sys\nsys.modules['left'] = sys"),
    Program("working folder", "import os\nos.mkdir('left')\nos.chdir('left')"),
    Program("shared memory", "from multiprocessing import shared_memory\n"
            "shared_memory.SharedMemory(name='left', create=True, size=9)"),
    Program("process", "import os, time\nif os.fork() == 0:\n    os.closerange(0, 9)\n    time.sleep(3)\n"
            "    os._exit(0)"),
)  # fmt: skip

BOMBS = (
    *(Program(f"time: {one.name}", one.body, ends=one.ends) for one in TIME),
    *(Program(f"room: {one.name}", one.body, ends=one.ends) for one in ROOM),
    *(Program(f"forged: {one.name}", one.body, ends=one.ends) for one in FORGERIES),
    *(Program(f"left: {one.name}", one.body, "left") for one in LEFTOVERS),
)

CANARY = """
import json
found = []
try:
    left
    found.append("a name")
except NameError:
    pass
try:
    import left as module
    found.append("a module")
except ImportError:
    pass
try:
    import os
    found += [one for one in [*os.listdir("/tmp"), *os.listdir("."), *os.listdir("/dev/shm")] if "left" in one]
    found += ["LEFT"] if "LEFT" in os.environ else []
    found += ["a folder"] if "left" in os.getcwd() else []
    found += [] if os.wait3(os.WNOHANG) is None else ["a process"]
except (OSError, RuntimeError, AttributeError, NotImplementedError):
    pass
print(json.dumps(found), sorted([2, 1]))
"""
"""A program that prints what another one left for it; it runs in the next call."""
UNTOUCHED = "[] [1, 2]\n"
