"""Programs that look for secrets: in files, in the environment, in other processes."""

from tests.abuse.program import Program

_MEMORY = """
with open(f"/proc/{at['process']}/maps") as maps:
    places = [line.split()[0].split("-") for line in maps if " rw-p " in line]
found = ""
for first, last in places:
    begin, size = int(first, 16), int(last, 16) - int(first, 16)
    %s
    place = data.find(at["mark"].encode() + b" ")
    if place >= 0:
        found = data[place:place + 200].decode("latin-1")
return found
"""

FILES = (
    Program("open", "return open(at['file']).read()"),
    Program("pathlib", "from pathlib import Path\nreturn Path(at['file']).read_text()"),
    Program("file descriptors", "import os\nreturn os.read(os.open(at['file'], os.O_RDONLY), 99).decode()"),
    Program("the temporary folder of the host", "return open(at['temporary']).read()"),
    Program("shared memory of the host", "return open(at['shared']).read()"),
    Program("home by its name", "import os\nreturn open(os.path.join(at['home'], at['name'])).read()"),
    Program("names in a folder", "import os\nreturn os.listdir(at['folder'])"),
    Program("names by glob", "import glob\nreturn glob.glob(at['folder'] + '/*')"),
    Program("names by walking", "import os\nreturn list(os.walk(at['folder']))"),
    Program("dots", "return open('../' * 40 + at['file']).read()"),
    Program("root of a process", "return open('/proc/self/root' + at['file']).read()"),
    Program("working folder of a process", "return open('/proc/self/cwd/' + '../' * 40 + at['file']).read()"),
    Program("symlink", "import os\nos.symlink(at['file'], 'link')\nreturn open('link').read()"),
    Program("symlink of a folder", "import os\nos.symlink(at['folder'], 'link')\nreturn os.listdir('link')"),
    Program("hard link", "import os\n"
            "os.link(at['file'], at['folder'] + '/link')\nreturn open(at['folder'] + '/link').read()"),
    Program("copy", "import shutil\nshutil.copy(at['file'], 'copy')\nreturn open('copy').read()"),
    Program("mapped file", "import mmap\nwith open(at['file'], 'rb') as file:\n"
            "    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ).read().decode()"),
    Program("line cache", "import linecache\nreturn linecache.getline(at['file'], 1)"),
    Program("loader", "import importlib.machinery\n"
            "return importlib.machinery.SourceFileLoader('x', at['file']).get_data(at['file']).decode()"),
    Program("import path", "import sys\nsys.path.insert(0, at['folder'])\nimport planted\nreturn planted.SECRET"),
    Program("subprocess", "import subprocess\nreturn subprocess.check_output(['cat', at['file']], text=True)"),
    Program("shell", "import os\nreturn os.popen('cat ' + at['file']).read()"),
    Program("exec of another program", "import os, sys\nsys.stdout.flush()\nos.execvp('cat', ['cat', at['file']])"),
    Program("C library", "import ctypes\nlib, room = ctypes.CDLL(None), ctypes.create_string_buffer(99)\n"
            "lib.read(lib.open(at['file'].encode(), 0), room, 99)\nreturn room.value.decode()"),
    Program("pickle", "import pickle\n"
            "return pickle.loads(b'cbuiltins\\nopen\\n(V' + at['file'].encode() + b'\\ntR.').read()"),
    Program("database", "import sqlite3\n"
            "connection = sqlite3.connect('file:' + at['database'] + '?mode=ro', uri=True)\n"
            "return connection.execute('SELECT word FROM secrets').fetchone()"),
    Program("unicode identifier", "return ｏｐｅｎ(at['file']).read()"),
    Program("attribute of a builtin", "return print.__self__.open(at['file']).read()"),
    Program("import under another name", "import importlib\n"
            "return getattr(importlib.import_module('i' + 'o'), 'op' + 'en')(at['file']).read()"),
    Program("evaluated text", "return eval('op' + 'en(' + repr(at['file']) + ').read()')"),
    Program("inherited files", "import os\nfound = b''\nfor one in range(3, 256):\n    try:\n"
            "        found += os.pread(one, 99, 0)\n    except OSError:\n        pass\nreturn found.decode('latin-1')"),
)  # fmt: skip

ENVIRONMENT = (
    Program("environment", "import os\nreturn os.environ[at['variable']]"),
    Program("getenv", "import os\nreturn os.getenv(at['variable'])"),
    Program("environment of this process", "return open('/proc/self/environ').read()"),
    Program("environment of a subprocess", "import subprocess\nreturn subprocess.check_output('env', text=True)"),
    Program("environment by the C library", "import ctypes\nlib = ctypes.CDLL(None)\n"
            "lib.getenv.restype = ctypes.c_char_p\nreturn lib.getenv(at['variable'].encode()).decode()"),
    Program("format string", "import os\nreturn ('{0.environ[' + at['variable'] + ']}').format(os)"),
    Program("subclasses of object", "for one in ().__class__.__base__.__subclasses__():\n"
            "    if one.__name__ == '_wrap_close':\n"
            "        return one.__init__.__globals__['environ'][at['variable']]"),
    Program("globals of a function", "import os\nreturn os.popen.__globals__['environ'][at['variable']]"),
    Program("frames", "import sys\nframe, found = sys._getframe(), ''\nwhile frame:\n"
            "    found += repr(frame.f_globals.get('os') and frame.f_globals['os'].environ)\n    frame = frame.f_back\n"
            "return found"),
    Program("objects of the collector", "import gc, os\n"
            "return [repr(one) for one in gc.get_objects() if type(one) is type(os.environ)]"),
)  # fmt: skip

PROCESSES = (
    Program("environment of a process", "return open(f\"/proc/{at['process']}/environ\").read()"),
    Program("arguments of a process", "return open(f\"/proc/{at['process']}/cmdline\").read()"),
    Program("all processes", "import os\nfound = ''\nfor one in os.listdir('/proc'):\n"
            "    try:\n        found += open(f'/proc/{one}/cmdline').read()\n    except OSError:\n"
            "        pass\nreturn found"),
    Program("all processes by the shell", "import os\nreturn os.popen('cat /proc/[0-9]*/cmdline 2>&1').read()"),
    Program("memory of a process", _MEMORY % (
            "with open(f\"/proc/{at['process']}/mem\", 'rb') as memory:\n"
            "        memory.seek(begin)\n        data = memory.read(size)"), traces=True),
    Program("memory by a system call", "import ctypes\nlib = ctypes.CDLL(None)\n"
            "class Part(ctypes.Structure):\n"
            "    _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]" + _MEMORY % (
            "room = ctypes.create_string_buffer(size)\n"
            "    here, there = Part(ctypes.addressof(room), size), Part(begin, size)\n"
            "    lib.process_vm_readv(at['process'], ctypes.byref(here), 1, ctypes.byref(there), 1, 0)\n"
            "    data = room.raw"), traces=True),
)  # fmt: skip

READS = tuple(Program(one.name, one.body, "secret", traces=one.traces) for one in (*FILES, *ENVIRONMENT, *PROCESSES))
