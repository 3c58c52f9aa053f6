"""test_reload.py - SIGHUP: tokens, certificate, key and limits are read again while requests go on; what is wrong changes nothing."""
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import time

import pyarrow.flight as flight
import pytest

import rollout

RECORDS = "/api/v1/rollouts/rl/records"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def reload(instance, wanted="settings were read again"):
    """Sends SIGHUP and waits until the log says what came of it."""
    before = pathlib.Path(instance.log.name).stat().st_size
    os.kill(instance.pid, signal.SIGHUP)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        said = pathlib.Path(instance.log.name).read_text()[before:]
        if wanted in said or "could not be read again" in said:
            assert wanted in said, said
            return said
        time.sleep(0.02)
    raise AssertionError(f"{wanted!r} was not said: {instance.tail()}")


def write(path, text):
    path.write_text(text)
    path.chmod(0o600)


def certify(place, name):
    """A new key and certificate in cert.pem and key.pem; the certificate."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.new",
                    "-out", "cert.new"], cwd=place, check=True, capture_output=True)
    (place / "key.new").chmod(0o600)
    (place / "key.new").rename(place / "key.pem")
    (place / "cert.new").rename(place / "cert.pem")
    return ssl.PEM_cert_to_DER_cert((place / "cert.pem").read_text())


def test_a_signal_that_nobody_waits_for_ends_nothing(tmp_path):
    with rollout.Instance(tmp_path) as instance:
        instance.create("rl")
        for number in range(5):
            os.kill(instance.pid, signal.SIGHUP)
            instance.add("rl", rollout.records([number]))
        reload(instance)
        assert len(instance.list("rl")) == 5 and instance.stop() == 0


def test_tokens_come_and_go(tmp_path):
    tokens = tmp_path / "tokens"
    write(tokens, "admin first-token\nread reader-token\n")
    with rollout.Instance(tmp_path / "pod", extra=["--auth-token-file", str(tokens)]) as instance:
        instance.call("POST", "/api/v1/rollouts", 201, json_body={"name": "rl"}, headers=bearer("first-token"))
        write(tokens, "admin second-token\nwrite reader-token\n")
        assert instance.request("GET", RECORDS, headers=bearer("second-token")).status == 401
        assert "tokens_changed=1" in reload(instance)
        assert instance.request("GET", RECORDS, headers=bearer("first-token")).status == 401
        instance.add("rl", rollout.records([1]), bearer("reader-token"))
        assert instance.request("GET", RECORDS, headers=bearer("second-token")).status == 200
        for wrong in ("", "read\n", "owner x\n"):
            write(tokens, wrong)
            said = reload(instance, "could not be read again")
            assert "tokens" in said and "second-token" not in said
            assert instance.request("GET", RECORDS, headers=bearer("second-token")).status == 200
        tokens.unlink()
        reload(instance, "could not be read again")
        assert instance.request("GET", RECORDS, headers=bearer("second-token")).status == 200
        assert instance.request("GET", RECORDS).status == 401, "never open to all"


def test_limits_change_and_a_bad_one_changes_none(tmp_path):
    limits = tmp_path / "limits"
    limits.write_text("# at the start\nROLLOUT_MAX_BODY=2000\n")
    extra = ["--limits-file", str(limits), "--max-body", "1000000"]
    big = {"records": rollout.records(range(20), content="x" * 100)}
    with rollout.Instance(tmp_path / "pod", extra=extra) as instance:
        instance.create("rl")
        assert instance.request("POST", RECORDS, json_body=big).status == 413
        limits.write_text("ROLLOUT_MAX_BODY=100000\nREQUEST_BODY_IDLE_TIMEOUT_SECS=1\n")
        said = reload(instance)
        assert "setting=ROLLOUT_MAX_BODY from=2000 to=100000" in said and "limits_changed=2" in said
        assert instance.request("POST", RECORDS, json_body=big).status == 201
        with socket.create_connection(("127.0.0.1", instance.port), 20) as connection:
            connection.sendall(f"POST {RECORDS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                               "Content-Length: 500\r\n\r\n{".encode())
            assert connection.recv(12) == b"HTTP/1.1 408"
        for wrong in ("ROLLOUT_MAX_BODY=5", "ROLLOUT_MAX_BODY", "ROLLOUT_LISTEN_PORT=1", "ROLLOUT_MAX_ANSWER_BYTES=many"):
            limits.write_text(f"ROLLOUT_MAX_BODY=2000\n{wrong}\n")
            assert "line 2" in reload(instance, "could not be read again")
            assert instance.request("POST", RECORDS, json_body={"records": rollout.records(range(20, 40), content="x" * 100)}
                                    ).status in (201, 409), "the limit before is in force"
        limits.write_text("")
        assert "setting=ROLLOUT_MAX_BODY from=100000 to=1000000" in reload(instance), "the flag's value again"
        checked = rollout.command("serve", "--check-config", "--json", *extra, environment={})
        assert {s["flag"]: s["value"] for s in json.loads(checked.stdout)["settings"]}["--max-body"] == "1000000"
        limits.write_text("ROLLOUT_MAX_BODY=2000\n")
        found = {s["flag"]: s for s in json.loads(rollout.command("serve", "--check-config", "--json", *extra).stdout)["settings"]}
        assert (found["--max-body"]["value"], found["--max-body"]["source"]) == ("2000", "limits file")
        limits.write_text("ROLLOUT_MAX_BODY=1\n")
        refused = rollout.command("serve", "--check-config", *extra)
        assert refused.returncode == 2 and "line 1: ROLLOUT_MAX_BODY must be" in refused.stderr


def presented(port):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 10) as plain, context.wrap_socket(plain) as secured:
        secured.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert secured.recv(12) == b"HTTP/1.1 200"
        return secured.getpeercert(binary_form=True)


def test_new_connections_see_the_new_certificate_and_old_ones_go_on(tmp_path):
    first = certify(tmp_path, "one")
    extra = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    with rollout.Instance(tmp_path / "pod", extra=extra) as instance:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", instance.port), 10) as plain, context.wrap_socket(plain) as old:
            assert presented(instance.port) == first
            second = certify(tmp_path, "two")
            assert presented(instance.port) == first
            assert "certificate_changed=1" in reload(instance)
            assert presented(instance.port) == second
            old.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert old.recv(12) == b"HTTP/1.1 200"
        (tmp_path / "key.pem").write_text("no key")
        reload(instance, "could not be read again")
        assert presented(instance.port) == second
        assert instance.stop() == 0


def test_the_other_servers_read_theirs_again_too(tmp_path):
    certify(tmp_path, "one")
    write(tmp_path / "token", "token-one\n")
    environment = {**os.environ, "LAKE_TLS_CERT_FILE": str(tmp_path / "cert.pem"), "LAKE_TLS_KEY_FILE": str(tmp_path / "key.pem"),
                   "LAKE_AUTH_TOKEN_FILE": str(tmp_path / "token")}
    ready, log = tmp_path / "ready", open(tmp_path / "log", "ab")
    process = subprocess.Popen([rollout.LAKE, "serve", "--data-dir", str(tmp_path / "data"), "--addr", "127.0.0.1:0",
                                "--rollout-addr", "127.0.0.1:0", "--ready-file", str(ready)], stderr=log, env=environment)
    try:
        while not ready.exists():
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.02)
        where = json.loads(ready.read_text())

        def knows(token):
            trust = (tmp_path / "cert.pem").read_bytes()
            with flight.FlightClient(f"grpc+tls://localhost:{where['query'].rsplit(':', 1)[1]}", tls_root_certs=trust) as client:
                client.authenticate_basic_token("anyone", token)
        knows("token-one")
        certify(tmp_path, "two")
        write(tmp_path / "token", "token-two\n")
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while (tmp_path / "log").read_text().count("read again") < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        knows("token-two") # and the client trusts the new certificate alone
        with pytest.raises(flight.FlightUnauthenticatedError):
            knows("token-one")
        assert presented(int(where["rollout"].rsplit(":", 1)[1])) == ssl.PEM_cert_to_DER_cert((tmp_path / "cert.pem").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        log.close()
