"""An S3 server for tests: versitygw over a directory, and a proxy before it that counts, delays, loses and fails.

The server is the one that tools/deps.sh builds with Go. Where Go is missing or too old, moto stands in: it checks no
signatures, so what only a strict server can judge asks `strict`.
"""
import http.client
import http.server
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LAKE_BIN", ROOT / "build/lake"))
GATEWAY = ROOT / "third_party/versitygw/bin/versitygw"
MOTO = ROOT / "third_party/venv-moto/bin/python"
ACCESS, SECRET, BUCKET = "lakekey", "lakesecret", "lake-test"
FULL = bool(os.environ.get("LAKE_TEST_FULL"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Serves one bucket until closed; with a certificate and its key by TLS."""

    def __init__(self, directory, certificate=None, key=None):
        self.port = free_port()
        self.url = f"http{'s' if key else ''}://127.0.0.1:{self.port}"
        self.strict = GATEWAY.exists()
        if self.strict:
            (directory / "data" / BUCKET).mkdir(parents=True)
            command = [GATEWAY, "--access", ACCESS, "--secret", SECRET, "--port", f"127.0.0.1:{self.port}",
                       "--quiet", "--keep-alive", *(["--cert", certificate, "--key", key] if key else []),
                       "posix", directory / "data"]
        else:
            command = [MOTO, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port),
                       *(["-c", certificate, "-k", key] if key else [])]
        self.log = open(directory / "server.log", "wb")
        self.process = subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=subprocess.STDOUT)
        self.wait()
        if not self.strict:
            self.request("PUT", f"/{BUCKET}")

    def wait(self):
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, "the S3 server ended"
                time.sleep(0.05)
        raise AssertionError("the S3 server does not listen")

    def request(self, method, path):
        connection = (http.client.HTTPConnection("127.0.0.1", self.port, timeout=10) if self.url.startswith("http:") else
                      http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10,
                                                  context=ssl._create_unverified_context()))
        connection.request(method, path, headers={"Content-Length": "0"})
        connection.getresponse().read()
        connection.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 128 # as many connect at once; one that finds no room waits a second


class Proxy:
    """Passes requests on unchanged, Host included, which signatures cover.

    `rule(method, path) -> action` decides for each request: None, or one of
      ("fail", status, code)  answer so, and pass nothing on
      ("lose",)               close the connection, pass nothing on
      ("deaf",)               pass it on, then close without the answer
      ("late", seconds)       close at once, pass it on so much later
    """

    def __init__(self, server, delay=0.0):
        self.server, self.delay, self.rule, self.log = server, delay, lambda method, path: None, []
        self.times = [] # when each of the log came
        self.lock = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def setup(self):
                super().setup()
                self.upstream = None

            def finish(self):
                super().finish()
                if self.upstream:
                    self.upstream.close()

            def log_message(self, *_):
                pass

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with proxy.lock:
                    proxy.log.append((self.command, self.path))
                    proxy.times.append(time.monotonic())
                    action = proxy.rule(self.command, self.path)
                if proxy.delay:
                    time.sleep(proxy.delay)
                if action is None:
                    return self.answer(*self.forward(body))
                if action[0] == "fail":
                    text = f"<Error><Code>{action[2]}</Code><Message>injected</Message></Error>".encode()
                    return self.answer(action[1], [("Content-Type", "application/xml")], text)
                if action[0] == "deaf":
                    self.forward(body)
                elif action[0] == "late":
                    command, path, headers = self.command, self.path, list(self.headers.items())
                    threading.Timer(action[1], proxy.forward, (command, path, headers, body)).start()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def forward(self, body):
                if self.upstream is None:
                    self.upstream = http.client.HTTPConnection("127.0.0.1", proxy.server.port, timeout=60)
                try:
                    return proxy.exchange(self.upstream, self.command, self.path, self.headers.items(), body)
                except (http.client.HTTPException, ConnectionError):
                    self.upstream.close()
                    return proxy.exchange(self.upstream, self.command, self.path, self.headers.items(), body)

            def answer(self, status, headers, body):
                self.send_response_only(status)
                size = len(body)
                for name, value in headers:
                    if name.lower() == "content-length" and self.command == "HEAD":
                        size = value
                    elif name.lower() not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(name, value)
                if status not in (204, 304):
                    self.send_header("Content-Length", str(size))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve

        self.httpd = Listener(("127.0.0.1", free_port()), Handler)
        self.httpd.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.httpd.server_port}"
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()

    def clear(self):
        self.log.clear()
        self.times.clear()

    def rounds(self):
        """How often somebody waited before asking on: requests that came while others were delayed are one round."""
        return sum(later - earlier > self.delay / 2 for earlier, later in zip([0, *self.times], self.times))

    def exchange(self, connection, method, path, headers, body):
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def forward(self, method, path, headers, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        self.exchange(connection, method, path, headers, body)
        connection.close()

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()


def environment(url, **more):
    """What lake and others need to reach the server; nothing of the caller's own accounts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": url, **more}


def options(url):
    """pylance's storage_options for the same."""
    return {"aws_access_key_id": ACCESS, "aws_secret_access_key": SECRET, "aws_region": "us-east-1",
            "aws_endpoint": url, "allow_http": "true", "virtual_hosted_style_request": "false"}


def lake(url, *arguments, input=None, timeout=120, **more):
    """Runs `lake ...`; the finished process."""
    return subprocess.run([BIN, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, input=input,
                          env=environment(url, **more))
