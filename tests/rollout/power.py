"""power.py - what a disk holds when the power fails at any moment, worked out of a trace of the system calls.

A file's bytes are safe once fsync of it returned after its last write, a name once fsync of its directory returned after
it was made. `Disk` replays the calls up to a moment and copies what is safe; with `names` every name survives, and files whose
bytes are not safe are empty: what a file system may leave, too.
"""
import pathlib
import re
import shutil

CALLS = "openat,open,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,fallocate,copy_file_range,fsync,fdatasync," \
    "syncfs,sync,sync_file_range,link,linkat,rename,renameat,renameat2,mkdir,mkdirat,sendto,sendmsg,io_uring_setup"
LINE = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>)?(.*)$")


def prefix(trace):
    """The words that go before a command, for Instance(prefix=...)."""
    return ["strace", "-f", "-qq", "-y", "-s", "400", "-o", str(trace), "-e", f"trace={CALLS}"]


def calls(trace):
    """(begin, end, text): whole calls by the numbers of the lines on which they begin and end."""
    open_calls = {}
    for number, line in enumerate(open(trace, errors="replace")):
        match = LINE.match(line.rstrip("\n"))
        if not match:
            continue
        thread, resumed, rest = match.groups()
        if rest.endswith("<unfinished ...>"):
            open_calls[thread] = (number, rest.removesuffix("<unfinished ...>"))
        elif resumed:
            begin, head = open_calls.pop(thread, (number, ""))
            yield begin, number, head + rest
        else:
            yield number, number, rest


class Events:
    """The trace as a list of (moment, kind, path, other path), by the moment at which each counts: a write and an answer
    when they begin, everything else when it has ended."""

    def __init__(self, trace, root):
        self.root, found = str(pathlib.Path(root).resolve()), []
        for begin, end, text in calls(trace):
            name = text.split("(", 1)[0]
            failed = re.search(r"= -1 E", text)
            assert name not in ("io_uring_setup", "sync", "syncfs"), f"{name}: this model does not know it"
            opened = re.match(r"\w+\(\d+<([^>]*)>", text)
            quoted = [self.resolve(at, path) for at, path in re.findall(r'(?:\w+<([^>]*)>, )?"((?:[^"\\]|\\.)*)"', text)]
            if name in ("write", "sendto", "sendmsg", "writev") and opened and "HTTP/1.1 201" in text:
                found.append((begin, "answer", text, None))
            elif name in ("write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "fallocate", "copy_file_range"):
                if opened and opened[1].startswith(self.root):
                    found.append((begin, "write", opened[1], None))
            elif failed:
                continue
            elif name in ("fsync", "fdatasync"):
                found.append((end, "sync", opened[1], begin))
            elif name in ("openat", "open", "creat") and ("O_CREAT" in text or name == "creat"):
                if quoted[0].startswith(self.root):
                    found.append((end, "make", quoted[0], None))
            elif name in ("mkdir", "mkdirat") and quoted[0].startswith(self.root):
                found.append((end, "directory", quoted[0], None))
            elif name in ("link", "linkat", "rename", "renameat", "renameat2") and quoted[-1].startswith(self.root):
                found.append((end, "link" if "link" in name else "rename", quoted[1], quoted[0]))
        self.all = sorted(found, key=lambda event: event[0])

    def resolve(self, at, path):
        return path if path.startswith("/") else f"{at}/{path}" if at else path


class Disk:
    """The state before `moment`."""

    def __init__(self, events, moment):
        self.root = pathlib.Path(events.root)
        self.file, self.written, self.synced = {}, {}, {} # path -> file; file -> moment
        self.made, self.kept = {}, set() # path -> moment of its name; safe names
        self.directories = set()
        for at, kind, path, other in events.all:
            if at >= moment:
                break
            if kind == "make" and path not in self.file:
                self.name(path, at, object())
            elif kind == "directory":
                self.directories.add(path)
                self.name(path, at, object())
            elif kind in ("link", "rename"):
                self.name(path, at, self.file.get(other) or object())
                if kind == "rename":
                    self.file.pop(other, None), self.made.pop(other, None), self.kept.discard(other)
            elif kind == "write" and path in self.file:
                self.written[self.file[path]] = at
            elif kind == "sync":
                if path in self.file:
                    self.synced[self.file[path]] = other # the moment when it began: later writes are not covered
                self.kept |= {name for name, made in self.made.items()
                              if made <= other and str(pathlib.Path(name).parent) == path}

    def name(self, path, at, file):
        self.file[path], self.made[path] = file, at
        self.kept.discard(path)

    def clean(self, path):
        file = self.file[path]
        return self.written.get(file, -1) <= self.synced.get(file, -2 if file in self.written else -1)

    def reached(self, path):
        """Is the name safe, and those of all directories above it that were made since the start?"""
        while path != str(self.root):
            if path in self.made and path not in self.kept:
                return False
            path = str(pathlib.Path(path).parent)
        return True

    def copy(self, target, names):
        """Writes what survives below target."""
        for path in sorted(self.file):
            place = pathlib.Path(target) / pathlib.Path(path).relative_to(self.root)
            if not names and not self.reached(path):
                continue
            if path in self.directories:
                place.mkdir(parents=True, exist_ok=True)
                continue
            if not pathlib.Path(path).is_file(): # a temporary name that is gone
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place) if self.clean(path) else place.write_bytes(b"")
