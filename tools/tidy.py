#!/usr/bin/env python3
"""tidy.py [ROOT] - the rules a compiler cannot see. Prints file:line: message; exit 1 if there is any.

Rooms:   an #include "room/x.h" must follow tools/rooms.txt; "x_priv.h" stays in its room; a room names
         only rooms above it in rooms.txt, so the graph has no cycle.
Sizes:   no source file over 800 lines, no function over 80.
Words:   banned calls; a setting's name as a string outside config.def, or one in a message that does
         not exist; getenv outside main.c; bare TODO.
Foreign: gRPC, DuckDB, curl, libmicrohttpd, RocksDB and protobuf only in the rooms of FOREIGN, and never
         in a header that another room can see.
"""
import pathlib
import re
import sys

FILE_MAX, FUNCTION_MAX = 800, 80
BANNED = re.compile(r"\b(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets|strtok|atoi|atol|atof|gmtime|"
                    r"localtime|rand|srand|alloca|system)\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
ANY_INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
SETTING = re.compile(r"\b(?:(?:LAKE|ROLLOUT)_[A-Z0-9_]+|INSTANCE_ID|REQUEST_BODY_IDLE_[A-Z_]+)")
FOREIGN = [ # what the include begins with, the rooms that may, their files, what it is
    (r"grpc/", {"net", "serve"}, r".*", "gRPC"),
    (r"duckdb", {"sql"}, r".*", "DuckDB"),
    (r"curl/", {"net"}, r".*", "curl"),
    (r"microhttpd", {"net"}, r".*", "libmicrohttpd"),
    (r"rocksdb/", {"kv"}, r".*", "RocksDB"),
    (r"protobuf-c/|.*\.pb-c\.h", {"flight", "lance"}, r"pb_.*\.c", "protobuf"),
]


class Tidy:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.rooms = self.read_rooms()
        self.settings = self.read_settings()

    def say(self, path, line, text):
        self.problems.append(f"{path.relative_to(self.root)}:{line}: {text}")

    def read_rooms(self):
        path = self.root / "tools/rooms.txt"
        allowed = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, below = line.partition(":")
            for other in below.split():
                if other not in allowed:
                    self.say(path, number, f"'{name}' may only use rooms listed above it, not '{other}'")
            allowed[name] = set(below.split()) | {name}
        return allowed

    def read_settings(self):
        path = self.root / "src/base/config.def"
        return set(re.findall(r'"(\w+)"', path.read_text())) if path.exists() else set()

    def includes(self, path, room, lines):
        for number, line in enumerate(lines, 1):
            if match := INCLUDE.match(line):
                self.own_include(path, room, number, match.group(1))
            if match := ANY_INCLUDE.match(line):
                self.foreign_include(path, room, number, match.group(1))

    def own_include(self, path, room, number, name):
        target, slash, header = name.partition("/")
        if not slash:
            if name != "lake.h" and not name.endswith(".pb-c.h"):
                self.say(path, number, f'write #include "room/{name}"')
        elif target not in self.rooms:
            return
        elif target not in self.rooms[room]:
            self.say(path, number, f"room '{room}' may not use room '{target}' (tools/rooms.txt)")
        elif header.endswith("_priv.h") and target != room:
            self.say(path, number, f"{name} is private to its room")

    def foreign_include(self, path, room, number, name):
        for start, rooms, files, what in FOREIGN:
            if not re.match(start, name):
                continue
            if room not in rooms or not re.fullmatch(files, path.name):
                self.say(path, number, f"{what} is used only by {'/, '.join(sorted(rooms))}/ in files like {files}")
            elif path.suffix == ".h" and not path.name.endswith("_priv.h"):
                self.say(path, number, f"a header that other rooms can see shows {what}")

    def sizes(self, path, lines):
        if len(lines) > FILE_MAX:
            self.say(path, FILE_MAX, f"{len(lines)} lines; split it (limit {FILE_MAX})")
        start = None
        for number, line in enumerate(lines, 1):
            if line == "{":
                start = number
            elif line == "}" and start:
                if number - start > FUNCTION_MAX:
                    self.say(path, start, f"function of {number - start} lines (limit {FUNCTION_MAX})")
                start = None

    def words(self, path, lines):
        is_test = path.name.endswith("_test.c")
        for number, line in enumerate(lines, 1):
            code = re.sub(r'"(\\.|[^"\\])*"', '""', line)
            code = re.sub(r"/\*.*?\*/|/\*.*|//.*|^\s*\*.*", "", code)
            if match := BANNED.search(code):
                self.say(path, number, f"{match.group(1)} is banned (docs/CONVENTIONS.md)")
            if re.search(r"\bgetenv\s*\(", code) and path.name != "main.c":
                self.say(path, number, "only main.c reads the environment")
            for text in STRING.findall(line) if path.suffix != ".def" and not is_test else []:
                self.setting(path, number, text)
            if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line):
                self.say(path, number, "write TODO(#issue) or do it now")

    def setting(self, path, number, text):
        """A message may name a setting that exists; a bare name would be one read behind the table's back."""
        for name in SETTING.findall(text):
            if name == text:
                self.say(path, number, "settings are named in base/config.def only")
            elif name not in self.settings:
                self.say(path, number, f"{name} is not in base/config.def")

    def file(self, path):
        room = path.relative_to(self.root / "src").parts[0]
        if room not in self.rooms:
            self.say(path, 1, f"room '{room}' is not in tools/rooms.txt")
            return
        lines = path.read_text().splitlines()
        self.includes(path, room, lines)
        self.sizes(path, lines)
        self.words(path, lines)
        first = next((line for line in lines if line and not line.startswith("#")), "")
        if not first.startswith("/*"):
            self.say(path, 1, "start with a comment: the file's name, purpose and invariant")

    def room_page(self, path):
        count = len(path.read_text().splitlines())
        if count > 40:
            self.say(path, 40, f"{count} lines; a room's page has at most 40")

    def run(self):
        for path in sorted((self.root / "src").rglob("*")):
            if path.suffix in (".c", ".h", ".def", ".cc"):
                self.file(path)
            elif path.name == "README.md":
                self.room_page(path)
        print("\n".join(self.problems) or "tidy: ok")
        return 1 if self.problems else 0


if __name__ == "__main__":
    sys.exit(Tidy(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()).run())
